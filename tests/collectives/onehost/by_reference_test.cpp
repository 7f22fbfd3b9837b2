// SPDX-License-Identifier: Apache-2.0
// Small vectors in memory that peers map are combined where they lie, whoever else keeps its own private.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <tuple>
#include <vector>

namespace cohort::by_reference_test {
namespace {

/// Which ranks' vectors lie in shared memory.
enum class Sharing { all, odd, even, none };
constexpr const char* kNames[] = {"all_share", "odd_share", "even_share", "none_shares"};

void PrintTo(Sharing sharing, std::ostream* out) { *out << kNames[static_cast<std::size_t>(sharing)]; }

using Case = std::tuple<Rank, Sharing, bool>;

bool shares(Sharing sharing, Rank rank) {
  switch (sharing) {
    case Sharing::all: return true;
    case Sharing::odd: return rank % 2 == 1;
    case Sharing::even: return rank % 2 == 0;
    case Sharing::none: break;
  }
  return false;
}

/// A vector of floats in shared or private memory.
class Vector {
 public:
  Vector(Communicator& comm, std::size_t count, bool is_shared)
      : private_(is_shared ? 0 : count), span_(private_) {
    if (!is_shared) return;
    shared_ = comm.allocate<float>(count);
    span_ = shared_.span();
  }
  [[nodiscard]] std::span<float> span() const { return span_; }

 private:
  std::vector<float> private_;
  SharedBuffer<float> shared_;
  std::span<float> span_;
};

float input(Rank rank, std::size_t index, int round) {
  return static_cast<float>((rank + 1) * (index % 11)) + static_cast<float>(round);
}

Task<> check_sum(Communicator& comm, std::size_t count, Sharing sharing, bool in_place) {
  const bool is_shared = shares(sharing, comm.rank());
  const Vector send(comm, count, is_shared);
  const Vector apart(comm, in_place ? 0 : count, is_shared);
  const std::span<float> recv = in_place ? send.span() : apart.span();
  for (int round = 0; round < 20; ++round) {  // the next one's input must not reach the last one's result
    for (std::size_t i = 0; i < count; ++i) send.span()[i] = input(comm.rank(), i, round);
    Collective call = comm.all_reduce(std::span<const float>(send.span()), recv, ReduceOp::sum);
    co_await std::move(call);
    for (std::size_t i = 0; i < count; ++i) {
      float expected = 0;
      for (Rank rank = 0; rank < comm.size(); ++rank) expected += input(rank, i, round);
      if (recv[i] == expected) continue;
      ADD_FAILURE() << "rank " << comm.rank() << ", " << count << " elements, round " << round << ": at " << i
                    << " got " << recv[i] << ", expected " << expected;
      co_return;
    }
  }
}

/// Each rank in turn gives what differs from the last round everywhere.
Task<> check_broadcast(Communicator& comm, std::size_t count, Sharing sharing) {
  const Vector data(comm, count, shares(sharing, comm.rank()));
  for (int round = 0; round < 20; ++round) {
    const Rank root = static_cast<Rank>(round) % comm.size();
    if (comm.rank() == root)
      for (std::size_t i = 0; i < count; ++i) data.span()[i] = input(root, i, round);
    Collective call = comm.broadcast(data.span(), root);
    co_await std::move(call);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += data.span()[i] == input(root, i, round) ? 0 : 1;
    EXPECT_EQ(wrong, 0U) << "rank " << comm.rank() << ", " << count << " elements, round " << round;
  }
}

/// An operator in which rank 0 gives something to rank 1.
struct LateCase {
  Operator op;
  std::size_t count;
  Rank root = 0;
};

/// All give 1, and rank 1 changes what rank 0 gives to 10 before it takes part: what it gets.
Task<> check_late_change(Communicator& comm, const LateCase& of, bool is_referred, float*& early) {
  const Form unit{.count = of.count, .ranks = comm.size(), .root = of.root};
  const Extent extent = of.op->extent(unit, comm.rank());
  const Vector send(comm, 2 * of.count, true);
  const Vector apart(comm, 2 * of.count, true);
  const std::span<float> recv = (of.op->has_one_buffer ? send : apart).span();
  std::ranges::fill(send.span(), 1.0F);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    early = send.span().data();
  } else {
    co_await comm.engine().sleep_for(std::chrono::milliseconds(50));  // it has announced its input by then
    std::fill_n(early, 2 * of.count, 10.0F);
  }
  const CallArguments arguments{.type = DataType::float32,
                                .root = of.root,
                                .in = std::as_bytes(send.span().first(extent.send)),
                                .out = std::as_writable_bytes(recv.first(extent.recv))};
  Collective call = comm.call(of.op, arguments).with_algorithm("slots");
  co_await std::move(call);
  if (comm.rank() == 0) co_return;
  const float expected =
      (is_referred ? 10.0F : 1.0F) + (of.op->combines && of.op != operator_of<ExclusiveScan> ? 1.0F : 0.0F);
  EXPECT_EQ(recv.front(), expected) << to_string(of.op);
  EXPECT_EQ(recv[of.count - 1], expected) << to_string(of.op);
}

constexpr std::size_t kCount16K = 4096;
constexpr std::size_t kCount64K = 16'384;
constexpr std::size_t kCount128K = 32'768;

/// In an operator that some ranks leave before the others have come, the second count.
std::vector<LateCase> late_cases(std::size_t count, std::size_t count_one_way) {
  return {{operator_of<AllReduce>, count},         {operator_of<AllGather>, count},
          {operator_of<ReduceScatter>, count},     {operator_of<AllToAll>, count},
          {operator_of<Broadcast>, count_one_way}, {operator_of<Reduce>, count_one_way, 1},
          {operator_of<Gather>, count_one_way, 1}, {operator_of<Scatter>, count_one_way},
          {operator_of<Scan>, count_one_way},      {operator_of<ExclusiveScan>, count_one_way}};
}

using Runner = void (*)(Rank, const RankFunction&, CommunicatorOptions);

void run_late_cases(const std::vector<LateCase>& cases, bool are_referred, Runner runner) {
  for (const LateCase& one : cases) {
    CommunicatorOptions options;
    options.is_isolated = true;
    float* early = nullptr;  // of a world's processes one runs at a time
    const auto body = [&](Communicator& comm) { return check_late_change(comm, one, are_referred, early); };
    runner(2, body, std::move(options));
  }
}

void run_without_cores(Rank ranks, const RankFunction& body, CommunicatorOptions options) {
  test::run_ranks_in_world(ranks, body, std::move(options));
}

TEST(ByReferenceAlone, input_in_shared_memory_is_read_where_it_lies) {
  run_late_cases(late_cases(kCount16K, kCount16K), true, test::run_ranks_with_cores);
}

TEST(ByReferenceAlone, ranks_that_share_cores_copy_what_takes_less_than_a_phase) {
  run_late_cases(late_cases(kCount16K, kCount64K), false, run_without_cores);
}

TEST(ByReferenceAlone, ranks_that_share_cores_refer_to_what_takes_longer) {
  run_late_cases(late_cases(kCount64K, kCount128K), true, run_without_cores);
}

/// A root that has said where its data lies changes it as soon as its call is over.
TEST(ByReferenceAlone, a_root_that_refers_waits_for_whoever_comes_late) {
  CommunicatorOptions options;
  options.is_isolated = true;
  options.algorithm = "slots";
  const auto body = [](Communicator& comm) -> Task<> {
    const Vector data(comm, kCount64K, true);
    for (int round = 0; round < 6; ++round) {
      std::ranges::fill(data.span(), comm.rank() == 0 ? static_cast<float>(round) : -1.0F);
      if (comm.rank() == 2) co_await comm.engine().sleep_for(std::chrono::milliseconds(20));
      co_await comm.broadcast(data.span(), 0);
      EXPECT_EQ(std::ranges::count(data.span(), static_cast<float>(round)), std::ptrdiff_t{kCount64K})
          << "rank " << comm.rank();
      std::ranges::fill(data.span(), 100.0F);
    }
  };
  test::run_ranks_with_cores(3, body, std::move(options));
}

class ByReference : public testing::TestWithParam<Case> {};

TEST_P(ByReference, results_are_right_whoever_shares_its_vector) {
  const auto [ranks, sharing, in_place] = GetParam();
  CommunicatorOptions options;
  options.is_isolated = true;
  options.algorithm = "slots";
  const auto body = [sharing, in_place](Communicator& comm) -> Task<> {
    for (const std::size_t count : {768UL, 1025UL, 4096UL, 8192UL, 20'000UL, 32'768UL, 65'536UL}) {
      co_await check_sum(comm, count, sharing, in_place);
      if (!in_place) co_await check_broadcast(comm, count, sharing);
    }
  };
  if (ranks == 2)  // as threads, which have a core each nearly everywhere
    test::run_ranks(ranks, body, std::move(options));
  else
    test::run_ranks_with_cores(ranks, body, std::move(options));
}

std::string name_of(const testing::TestParamInfo<Case>& test) {
  const auto [ranks, sharing, in_place] = test.param;
  return fmt::format("{}_ranks_{}{}", ranks, kNames[static_cast<std::size_t>(sharing)],
                     in_place ? "_in_place" : "");
}

INSTANTIATE_TEST_SUITE_P(, ByReference,
                         testing::Combine(testing::Values(2U, 3U, 5U, 8U),
                                          testing::Values(Sharing::all, Sharing::odd, Sharing::even,
                                                          Sharing::none),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace cohort::by_reference_test
