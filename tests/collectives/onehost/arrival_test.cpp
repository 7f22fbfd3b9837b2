// SPDX-License-Identifier: Apache-2.0
// What a rank makes of the words that another one leaves in its arrival slot.
#include <cohort/collectives/onehost/arrival.h>

#include <cohort/collectives/call/signature.h>
#include <cohort/net/transport_list.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/schedules.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace cohort::test::arrival_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 4096;  // 16 KiB: may stay where they lie
constexpr std::size_t kBufferBytes = 64 * kKiB;

/// What stands in a slot whose owner's data does not.
struct Words {
  std::uint64_t send_offset = 0;
  std::uint64_t recv_offset = 0;
  std::uint64_t send_address = 0;
  std::uint64_t recv_address = 0;
};
constexpr std::uint32_t kInSegment = 1 | 2;
constexpr std::uint32_t kByReference = 4;
constexpr std::uint32_t kInPieces = 8;

/// Rank 0 meets; what rank 1 says is written by the test.
class ArrivalOfTwo {
 public:
  explicit ArrivalOfTwo(Engine& engine) : joined_(join_on(engine, world_of(2, fresh_unix_address()))) {
    const PeerTransports::Choice choice{.kinds = cohort::transports(),
                                        .asked = "shm",
                                        .buffer_bytes = kBufferBytes,
                                        .heap_bytes = kMiB,
                                        .is_isolated = true};
    for (const Rank rank : {0U, 1U}) {
      hosts_[rank].expected_peer = 1 - rank;
      resources_[rank].emplace(engine, *joined_[rank].membership, hosts_[rank], choice);
    }
    for (const Rank rank : {0U, 1U}) introduce(rank);
    own_heap_ = heap_of(0);
    peers_heap_ = heap_of(1);
    exec_.emplace(engine, *joined_[0].membership, hosts_[0], *resources_[0]);
    exec_->set_cores(CoreSupply::idle, 2);
    arrival_.emplace(engine, *joined_[0].membership, *resources_[0]->group(), hosts_[0], hosts_[0].state,
                     *exec_, own_heap_, reach_);
  }

  /// Memory of rank 0's that rank 1 maps.
  [[nodiscard]] std::span<float> own_memory(std::size_t count) {
    return {reinterpret_cast<float*>(own_heap_.allocate(count * sizeof(float))), count};
  }
  /// Memory of rank 1's that rank 0 maps, and where it lies.
  [[nodiscard]] std::span<float> peers_memory(std::size_t count) {
    return {reinterpret_cast<float*>(peers_heap_.allocate(count * sizeof(float))), count};
  }
  [[nodiscard]] std::uint64_t offset_of(std::span<const float> memory) {
    return *peers_heap_.offset_of(std::as_bytes(memory).data(), memory.size_bytes());
  }

  /// Rank 1 comes with these words, and passes the phase at once; whether the call is complete then.
  [[nodiscard]] bool meet(const Call& call, std::uint32_t reachable, const Words& words) {
    peers_group().arrive_at_phase();
    return meet_with(call, reachable, std::as_bytes(std::span(&words, 1)), true);
  }
  /// Rank 1 comes with this data, and passes no phase.
  [[nodiscard]] bool meet_data(const Call& call, std::span<const float> data) {
    return meet_with(call, 0, std::as_bytes(data));
  }
  /// Rank 1 comes with what fills the first piece of its data. Then it brings all of it, and rank 0 goes on.
  [[nodiscard]] bool meet_piece(const Call& call, std::span<const float> piece) {
    peers_group().tell_filled(hosts_[0].state.sequence, piece.size_bytes());
    return meet_with(call, kInPieces, std::as_bytes(piece));
  }
  Task<bool> fill(const Call& call, std::span<const float> data) {
    std::memcpy(place_of(1, call), data.data(), data.size_bytes());
    peers_group().tell_full(hosts_[0].state.sequence, data.size_bytes());
    const bool is_done = co_await arrival_->attend(call);
    co_return is_done;
  }
  /// Ranks outnumber their cores from now on.
  void share_cores() { exec_->set_cores(CoreSupply::shared, 2); }
  /// What rank 0 leaves for the others in its first call.
  [[nodiscard]] std::span<float> own_slot(std::size_t count) {
    host::HostGroup& group = *resources_[0]->group();
    return {reinterpret_cast<float*>(group.own().at(group.layout().payload_ring())), count};
  }
  [[nodiscard]] const std::vector<Error>& failures() const { return hosts_[0].failures; }

 private:
  [[nodiscard]] host::HostGroup& peers_group() { return *resources_[1]->group(); }
  [[nodiscard]] std::byte* place_of(Rank rank, const Call& call) {
    return resources_[rank]->group()->payload(rank, hosts_[0].state.sequence, call.announced_bytes);
  }
  [[nodiscard]] SharedHeap heap_of(Rank rank) {
    const Resources::HeapPlace heap = resources_[rank]->heap();
    return {heap.memory, heap.offset, heap.bytes, false};
  }
  [[nodiscard]] bool meet_with(const Call& call, std::uint32_t reachable, std::span<const std::byte> brought,
                               bool are_words = false) {
    RunningOperation& running = hosts_[0].state;
    running.signature = sign(call, 2);
    running.windows.bind(WindowId::send, call.send, call.send_bytes);
    running.windows.bind(WindowId::recv, call.recv, call.recv_bytes);
    host::ArrivalSlot& slot = peers_group().own_arrival(running.sequence);
    slot.signature = running.signature;
    slot.reachable = reachable;
    const std::size_t ring = plan_for(call, exec_->plan(), reach_).ring_bytes;
    if (call.algorithm->announces() == Announces::data)
      peers_group().take_payload_place(running.sequence, call.announced_bytes, ring);
    std::memcpy(are_words ? slot.beside_stamp : place_of(1, call), brought.data(), brought.size());
    peers_group().announce(running.sequence);
    arrival_->begin(call);
    return arrival_->complete_here(call);
  }
  void introduce(Rank rank) {
    const Introduction said = resources_[rank]->transports().to(1 - rank).introduce(1 - rank);
    std::vector<Descriptor> passed;
    for (const int descriptor : said.descriptors) passed.emplace_back(::dup(descriptor));
    resources_[1 - rank]->transports().to(rank).meet(rank, said.words, std::move(passed));
  }

  std::vector<Joined> joined_;
  std::array<FakeHost, 2> hosts_;
  std::array<std::optional<Resources>, 2> resources_;
  SharedHeap own_heap_;
  SharedHeap peers_heap_;
  const Reach reach_{.is_host_wide = true, .hosts = 2, .buffer_bytes = kBufferBytes};
  std::optional<MemoryExec> exec_;
  std::optional<Arrival> arrival_;
};

Call call_of(const AnyAlgorithm& algorithm, std::span<const float> in, std::span<float> out) {
  CallArguments arguments{.type = DataType::float32};
  arguments.in = std::as_bytes(in);
  arguments.out = std::as_writable_bytes(out);
  Call call = make_call(algorithm.op(), arguments, 0, 2);
  call.algorithm = &algorithm;
  return call;
}

TEST(Arrival, words_that_make_sense_are_followed) {
  Engine engine;
  ArrivalOfTwo two(engine);
  const std::span<float> theirs = two.peers_memory(kCount);
  std::ranges::fill(theirs, 2.0F);
  const std::vector<float> in(kCount, 1.0F);
  std::vector<float> out(kCount);
  const Call call = call_of(test::library<AllReduce>("slots"), in, out);
  const Words words{.send_offset = two.offset_of(theirs), .recv_offset = two.offset_of(theirs)};
  EXPECT_TRUE(two.meet(call, kByReference | kInSegment, words));
  EXPECT_TRUE(two.failures().empty());
  EXPECT_THAT(out, Each(3.0F));
}

void expect_named_as_nonsense(const ArrivalOfTwo& two) {
  ASSERT_EQ(two.failures().size(), 1U);
  const Error& error = two.failures().front();
  EXPECT_EQ(error.kind(), ErrorKind::ProtocolError);
  EXPECT_EQ(error.culprit(), Rank{1});
  EXPECT_THAT(error.what(), HasSubstr("rank 1 announces buffers that are not where it says"));
}

TEST(Arrival, words_that_lead_out_of_the_segment_are_reported_with_their_rank) {
  struct Case {
    std::uint32_t reachable;
    Words words;
  };
  const Case cases[] = {
      {kByReference, {}},
      {kByReference | 1, {}},
      {kByReference | 2, {}},
      {kByReference | kInSegment, {.send_offset = ~std::uint64_t{0} - 64}},
      {kByReference | kInSegment, {.recv_offset = std::uint64_t{1} << 40}},
  };
  for (const Case& one : cases) {
    Engine engine;
    ArrivalOfTwo two(engine);
    const std::vector<float> in(kCount, 1.0F);
    std::vector<float> out(kCount);
    EXPECT_FALSE(two.meet(call_of(test::library<AllReduce>("slots"), in, out), one.reachable, one.words));
    expect_named_as_nonsense(two);
  }
}

TEST(Arrival, a_reference_that_the_algorithm_does_not_allow_is_reported_with_its_rank) {
  Engine engine;
  ArrivalOfTwo two(engine);
  const std::span<float> theirs = two.peers_memory(kCount);
  const std::vector<float> in(kCount, 1.0F);
  std::vector<float> out(kCount);
  const Words words{.send_offset = two.offset_of(theirs), .recv_offset = two.offset_of(theirs)};
  const AnyAlgorithm& algorithm = test::library<AllReduce>("slots");
  const Call call = call_of(algorithm, std::span(in).first(1), std::span(out).first(1));
  EXPECT_FALSE(two.meet(call, kByReference | kInSegment, words));
  expect_named_as_nonsense(two);
}

TEST(Arrival, a_reference_that_ranks_without_cores_of_their_own_do_not_make_is_reported_with_its_rank) {
  Engine engine;
  ArrivalOfTwo two(engine);
  two.share_cores();
  const std::span<float> theirs = two.peers_memory(kCount);
  const std::vector<float> in(kCount, 1.0F);
  std::vector<float> out(kCount);
  const Words words{.send_offset = two.offset_of(theirs), .recv_offset = two.offset_of(theirs)};
  EXPECT_FALSE(
      two.meet(call_of(test::library<AllReduce>("slots"), in, out), kByReference | kInSegment, words));
  expect_named_as_nonsense(two);
}

TEST(Arrival, what_nobody_else_reads_is_not_copied) {
  Engine engine;
  ArrivalOfTwo two(engine);
  std::ranges::fill(two.own_slot(kCount), -1.0F);
  const std::vector<float> in(kCount, 1.0F);
  const std::vector<float> theirs(kCount, 2.0F);
  std::vector<float> out(kCount);
  EXPECT_TRUE(two.meet_data(call_of(test::library<Reduce>("slots"), in, out), theirs));
  EXPECT_THAT(out, Each(3.0F));
  EXPECT_THAT(two.own_slot(kCount), Each(-1.0F));
}

TEST(Arrival, what_a_rank_gives_to_itself_alone_is_not_copied) {
  Engine engine;
  ArrivalOfTwo two(engine);
  std::ranges::fill(two.own_slot(2 * kCount), -1.0F);
  std::vector<float> in(2 * kCount, 1.0F);
  std::ranges::fill(std::span(in).first(kCount), 5.0F);
  const std::vector<float> theirs(2 * kCount, 2.0F);
  std::vector<float> out(2 * kCount);
  EXPECT_TRUE(two.meet_data(call_of(test::library<AllToAll>("slots"), in, out), theirs));
  EXPECT_THAT(std::span<const float>(out).first(kCount), Each(5.0F));
  EXPECT_THAT(std::span<const float>(out).last(kCount), Each(2.0F));
  EXPECT_THAT(two.own_slot(2 * kCount).first(kCount), Each(-1.0F));
  EXPECT_THAT(two.own_slot(2 * kCount).last(kCount), Each(1.0F));
}

TEST(Arrival, what_nobody_else_reads_needs_no_phase_wherever_it_lies) {
  Engine engine;
  ArrivalOfTwo two(engine);
  const std::span<float> in = two.own_memory(kCount);
  const std::span<float> out = two.own_memory(kCount);
  std::ranges::fill(in, 1.0F);
  const std::vector<float> theirs(kCount, 2.0F);
  EXPECT_TRUE(two.meet_data(call_of(test::library<Reduce>("slots"), in, out), theirs));
  EXPECT_THAT(out, Each(3.0F));
}

/// In place what is combined already must not be combined again when the rest comes.
TEST(Arrival, what_comes_in_pieces_is_taken_as_it_comes) {
  Engine engine;
  ArrivalOfTwo two(engine);
  constexpr std::size_t kPiece = SlotFilling::kPieceBytes / sizeof(float);
  std::vector<float> vector(2 * kPiece, 1.0F);
  const std::vector<float> theirs(2 * kPiece, 2.0F);
  const Call call = call_of(test::library<Reduce>("slots"), vector, vector);
  EXPECT_FALSE(two.meet_piece(call, std::span(theirs).first(kPiece)));
  const std::span<const float> halves(vector);
  EXPECT_THAT(halves.first(kPiece), Each(3.0F));
  EXPECT_THAT(halves.last(kPiece), Each(1.0F));
  EXPECT_TRUE(engine.run(two.fill(call, theirs)));
  EXPECT_THAT(vector, Each(3.0F));
}

}  // namespace
}  // namespace cohort::test::arrival_test
