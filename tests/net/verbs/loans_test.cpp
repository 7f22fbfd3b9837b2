// SPDX-License-Identifier: Apache-2.0
// Large memory that the other end's device reads where it lies.
#include <cohort/engine/when_all.h>
#include <cohort/net/auth/wire.h>
#include <cohort/net/framed/payload.h>
#include <cohort/tests/net/verbs/verbs_streams.h>

#include <algorithm>
#include <functional>

namespace cohort::verbs::loans_test {
namespace {

using Kind = Immediate::Kind;
constexpr std::size_t kMiB = std::size_t{1} << 20;

class Loans : public VerbsStreams {
 protected:
  static int lend(VerbsStream& stream, const Bytes& bytes) { return stream.try_send_some({}, bytes); }
  /// Sends all of it, while the other end receives what comes; what came.
  static Bytes pass(VerbsStream& from, const Bytes& bytes, VerbsStream& to, Bytes into) {
    std::size_t sent = 0;
    std::size_t received = 0;
    for (int turn = 0; received < into.size(); ++turn) {
      if (turn == 10'000) return {};
      const int out = sent < bytes.size() ? from.try_send_some({}, std::span(bytes).subspan(sent)) : 0;
      const int in = to.try_receive_some(std::span(into).subspan(received));
      if ((out < 0 && out != -EAGAIN) || (in <= 0 && in != -EAGAIN)) return {};
      sent += static_cast<std::size_t>(std::max(out, 0));
      received += static_cast<std::size_t>(std::max(in, 0));
    }
    const int last = sent == bytes.size() ? 0 : from.try_send_some({}, std::span(bytes).subspan(sent));
    EXPECT_EQ(sent + static_cast<std::size_t>(std::max(last, 0)), bytes.size()) << "the sender is not told";
    return into;
  }
  /// As if the peer had lent that.
  void lend_by_hand(const LoanTerms& terms) {
    auto* const behind_ring = reinterpret_cast<std::byte*>(other->end_point().ring) + kRingBytes;
    wire::Writer writer(std::span(behind_ring, LoanTerms::kBytes));
    writer.put(terms.address);
    writer.put(terms.key);
    writer.put(terms.bytes);
    say(*other, Immediate::loan(0).encode(), LoanTerms::kBytes);
  }
  void expect_passes(const Bytes& bytes) {
    const bool is_same = pass(*one, bytes, *other, Bytes(bytes.size())) == bytes;
    EXPECT_TRUE(is_same);
  }
  Regions& regions() { return device->regions(); }
};

TEST_F(Loans, of_declared_memory_are_read_where_they_lie_and_registered_once) {
  Bytes from = numbered(0, kMiB);
  Bytes into(kMiB);
  regions().declare(from);
  regions().declare(into);
  const std::size_t before = fake.registered_bytes;
  const int registrations = fake.registrations;
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(lend(*one, from), -EAGAIN);
    EXPECT_EQ(receive(*other, into), static_cast<int>(kMiB));
    EXPECT_EQ(lend(*one, from), static_cast<int>(kMiB));
    EXPECT_EQ(into, from);
    std::fill(into.begin(), into.end(), std::byte{0});
  }
  EXPECT_EQ(fake.registrations, registrations + 2);
  EXPECT_EQ(fake.registered_bytes, before + 2 * kMiB);
  EXPECT_EQ(one->traffic().lent, 3 * kMiB);
  EXPECT_EQ(other->traffic().read, 3 * kMiB);
  EXPECT_EQ(one->traffic().copied + other->traffic().copied, 0U);
  regions().forget(from.data());
  EXPECT_EQ(fake.registered_bytes, before + kMiB);
}

TEST_F(Loans, of_other_memory_are_registered_for_one_transfer) {
  const std::size_t before = fake.registered_bytes;
  for (int times = 0; times < 2; ++times) expect_passes(numbered(static_cast<std::size_t>(times), kMiB));
  EXPECT_EQ(other->traffic().read, 2 * kMiB);
  EXPECT_EQ(fake.registered_bytes, before) << "nobody would tell when it is freed";
}

TEST_F(Loans, of_a_part_of_declared_memory_are_of_that_part) {
  constexpr std::size_t kAt = 300'000;
  Bytes declared = numbered(0, 2 * kMiB);
  regions().declare(declared);
  const std::span<const std::byte> part = std::span(declared).subspan(kAt, kMiB);
  EXPECT_EQ(one->try_send_some({}, part), -EAGAIN);
  Bytes into(kMiB);
  EXPECT_EQ(receive(*other, into), static_cast<int>(kMiB));
  EXPECT_EQ(into, numbered(kAt, kMiB));
  EXPECT_EQ(one->try_send_some({}, part), static_cast<int>(kMiB));
}

TEST_F(Loans, of_what_is_longer_than_one_of_them_follow_each_other) {
  expect_passes(numbered(0, LoanTerms::kMostBytes + kMiB));
  EXPECT_EQ(fake.reads, 2);
}

TEST_F(Loans, are_not_made_of_what_is_small) {
  Bytes declared(kRingBytes - 1);
  regions().declare(declared);
  EXPECT_GT(lend(*one, declared), 0);
  EXPECT_EQ(lend(*other, Bytes(kRingBytes)), static_cast<int>(kRingBytes)) << "to register it costs more";
  EXPECT_EQ(fake.reads, 0);
}

TEST_F(Loans, that_the_reader_has_no_memory_for_any_more_come_in_small_pieces) {
  const Bytes large = numbered(0, kMiB);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  Bytes start(kMiB / 2);
  EXPECT_EQ(receive(*other, start), static_cast<int>(kMiB / 2));
  fake.most_memory = fake.registered_bytes - start.size();
  Bytes rest(kMiB / 2);
  for (std::size_t at = 0; at < rest.size(); at += kBounceBytes)
    ASSERT_EQ(other->try_receive_some(std::span(rest).subspan(at)), static_cast<int>(kBounceBytes));
  start.insert(start.end(), rest.begin(), rest.end());
  EXPECT_EQ(start, large);
  EXPECT_EQ(lend(*one, large), static_cast<int>(kMiB));
}

/// What was read of an earlier one is no part of it.
TEST_F(Loans, that_the_reader_has_no_memory_for_are_read_after_others_were_too) {
  expect_passes(numbered(0, kMiB));
  const Bytes next = numbered(3, kMiB);
  EXPECT_EQ(lend(*one, next), -EAGAIN);
  fake.most_memory = fake.registered_bytes;
  expect_passes(next);
  EXPECT_EQ(other->traffic().read, 2 * kMiB);
}

/// The reader sends so much behind its read that its last request but the end's is taken when it could
/// answer: of what was sent before the peer's credit some is not known to be done.
TEST_F(Loans, are_answered_later_where_the_send_queue_is_full) {
  const Bytes large = numbered(0, kMiB);
  Bytes into(kMiB);
  EXPECT_EQ(send(*other, 1000), 1000);
  EXPECT_EQ(receive(*one, 1000), 1000);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  fake.is_holding = true;
  EXPECT_EQ(receive(*other, into), -EAGAIN);
  for (std::uint32_t i = 1; i < kCreditMessages; ++i) EXPECT_EQ(send(*other, 1050), 1050);
  fake.carry_out_all();
  EXPECT_EQ(receive(*one, kRingBytes), 15 * 1050) << "a credit is due";
  EXPECT_TRUE(fake.carry_out());
  while (send(*other, 1) > 0) continue;
  const int posted = fake.sends_posted;
  EXPECT_EQ(receive(*other, into), static_cast<int>(kMiB));
  say(*other, Kind::credit, 0, 0, 0);
  EXPECT_EQ(receive(*other, 1), -EAGAIN) << "its look at what has completed";
  EXPECT_EQ(fake.sends_posted, posted) << "the last place is the end's";
  fake.is_holding = false;
  fake.carry_out_all();
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  EXPECT_EQ(receive(*other, 1), -EAGAIN);
  EXPECT_EQ(lend(*one, large), static_cast<int>(kMiB));
  EXPECT_EQ(into, large);
}

TEST_F(Loans, are_read_in_pieces_into_the_same_memory) {
  const Bytes large = numbered(0, kMiB);
  Bytes piece(100'000);
  other->will_receive_into(piece);
  const int registrations = fake.registrations;
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  Bytes all;
  while (all.size() < kMiB) {
    const int count = receive(*other, piece);
    ASSERT_GT(count, 0);
    all.insert(all.end(), piece.begin(), piece.begin() + count);
  }
  EXPECT_EQ(all, large);
  EXPECT_EQ(lend(*one, large), static_cast<int>(kMiB));
  EXPECT_EQ(fake.registrations, registrations + 2) << "the lender's and the reader's";
  other.reset();
}

constexpr std::size_t kElementBytes = 12;  // of which no block has a whole number

void add_bytes(const Reducer&, std::byte* inout, const std::byte* in, std::size_t bytes) noexcept {
  ASSERT_EQ(bytes % kElementBytes, 0U);
  for (std::size_t i = 0; i < bytes; ++i)
    inout[i] = static_cast<std::byte>(std::to_integer<int>(inout[i]) + std::to_integer<int>(in[i]));
}

/// Combines what comes with zeros: what came.
Bytes combine(VerbsStream& from, std::size_t bytes) {
  const Reducer reducer{.fold = add_bytes, .element_bytes = kElementBytes};
  Bytes sum(bytes);
  framed::ReceiveBuffer staging(from.combining_bytes());
  framed::Payload payload(sum.data(), bytes, &reducer);
  for (int turn = 0; turn < 1000 && !payload.is_complete(); ++turn) (void)payload.receive(from, staging);
  return sum;
}

TEST_F(Loans, are_combined_from_one_block_of_all_links_that_take_turns) {
  const Bytes large = numbered(0, 99'999 * kElementBytes);
  VerbsStream second(engine, *device, 2);
  VerbsStream its_peer(engine, *device, 0);
  second.connect(its_peer.end_point());
  its_peer.connect(second.end_point());
  const std::size_t before = fake.registered_bytes;
  for (const auto& [from, to] : {std::pair(&*one, &*other), std::pair(&second, &its_peer)}) {
    EXPECT_EQ(lend(*from, large), -EAGAIN);
    const bool is_same = combine(*to, large.size()) == large;
    EXPECT_TRUE(is_same);
    EXPECT_EQ(lend(*from, large), static_cast<int>(large.size()));
  }
  EXPECT_EQ(fake.registered_bytes, before + Blocks::kBytes);
}

TEST_F(Loans, that_are_combined_at_the_same_time_have_blocks_of_their_own) {
  VerbsStream second(engine, *device, 2);
  VerbsStream its_peer(engine, *device, 0);
  second.connect(its_peer.end_point());
  its_peer.connect(second.end_point());
  const Bytes large = numbered(0, kMiB);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  EXPECT_EQ(lend(second, large), -EAGAIN);
  (void)receive(*other, 0);
  (void)receive(its_peer, 0);
  fake.is_holding = true;
  const std::span<std::byte> block = other->borrow_block();
  EXPECT_EQ(other->try_receive_some(block), -EAGAIN);
  other->return_block();
  EXPECT_EQ(other->borrow_block().data(), block.data()) << "the device writes there";
  EXPECT_NE(its_peer.borrow_block().data(), block.data());
  other->shutdown();
  other->return_block();
  EXPECT_EQ(device->blocks().take(), block.data()) << "it was given back";
  device->blocks().give_back(block.data());
}

TEST_F(Loans, that_are_read_into_other_memory_already_take_no_block_for_that_piece) {
  const Bytes large = numbered(0, kMiB);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  fake.is_holding = true;
  Bytes staging(4096);
  EXPECT_EQ(other->try_receive_some(staging), -EAGAIN);
  EXPECT_TRUE(other->borrow_block().empty());
  fake.is_holding = false;
  fake.carry_out_all();
  EXPECT_TRUE(other->borrow_block().empty()) << "it is here, and nobody was told of it";
  EXPECT_EQ(other->try_receive_some(staging), static_cast<int>(staging.size()));
  EXPECT_EQ(staging, Bytes(large.begin(), large.begin() + staging.size()));
  EXPECT_FALSE(other->borrow_block().empty());
}

TEST_F(Loans, keep_the_block_that_they_are_read_into_registered_from_piece_to_piece) {
  const Bytes large = numbered(0, kMiB);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  (void)receive(*other, 0);
  const std::span<std::byte> block = other->borrow_block();
  EXPECT_EQ(other->try_receive_some(block), static_cast<int>(block.size()));
  other->return_block();
  (void)regions().let_go_idle();
  fake.most_memory = fake.registered_bytes;
  EXPECT_EQ(combine(*other, kMiB - block.size()), Bytes(large.begin() + block.size(), large.end()));
}

TEST_F(Loans, leave_a_block_with_who_combines_from_it_when_the_stream_fails) {
  const Bytes large = numbered(0, Blocks::kBytes);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  (void)receive(*other, 0);
  const std::span<std::byte> block = other->borrow_block();
  fake.refuses_send = [](const ibv_send_wr& request) {
    return request.opcode == IBV_WR_RDMA_READ ? 0 : ENOMEM;  // the answer to the loan
  };
  EXPECT_EQ(other->try_receive_some(block), static_cast<int>(block.size()));
  std::byte* const next = device->blocks().take();
  EXPECT_NE(next, block.data()) << "its bytes are still to be combined";
  device->blocks().give_back(next);
}

TEST_F(Loans, run_in_both_directions_at_once) {
  const Bytes mine = numbered(0, kMiB);
  const Bytes theirs = numbered(5, 2 * kMiB);
  EXPECT_EQ(lend(*one, mine), -EAGAIN);
  EXPECT_EQ(lend(*other, theirs), -EAGAIN);
  Bytes at_other(kMiB);
  Bytes at_one(2 * kMiB);
  EXPECT_EQ(receive(*one, at_one), static_cast<int>(2 * kMiB));
  EXPECT_EQ(receive(*other, at_other), static_cast<int>(kMiB));
  EXPECT_EQ(lend(*one, mine), static_cast<int>(kMiB));
  EXPECT_EQ(lend(*other, theirs), static_cast<int>(2 * kMiB));
  EXPECT_EQ(at_other, mine);
  EXPECT_EQ(at_one, theirs);
}

TEST_F(Loans, that_the_reader_has_no_memory_for_are_the_last_ones) {
  const Bytes large = numbered(0, kMiB);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  fake.most_memory = fake.registered_bytes;
  expect_passes(large);
  EXPECT_EQ(other->traffic().read, kMiB);
  EXPECT_EQ(fake.reads, static_cast<int>(kMiB / kBounceBytes));
  fake.most_memory = ~0UL;
  EXPECT_GT(lend(*one, large), 0) << "through the ring: it was told once";
}

TEST_F(Loans, that_the_lender_has_no_memory_for_are_none) {
  fake.most_memory = fake.registered_bytes;
  const int registrations = fake.registrations;
  expect_passes(numbered(0, kMiB));
  EXPECT_EQ(one->traffic().copied, kMiB);
  EXPECT_EQ(fake.registrations, registrations);
}

TEST_F(Loans, are_not_made_where_children_share_pages) {
  connect();
  fake.fork_status = IBV_FORK_ENABLED;
  one.reset();
  other.reset();
  device.emplace(fake.library(), *choose_port(fake.library(), settings).port, settings);
  connect();
  expect_passes(numbered(0, kMiB));
  EXPECT_EQ(fake.reads, 0);
}

TEST_F(Loans, make_room_for_connections) {
  Bytes declared(kMiB);
  regions().declare(declared);
  EXPECT_TRUE(regions().of(declared, Regions::Use::lend));
  fake.most_memory = fake.registered_bytes;
  const VerbsStream third(engine, *device, 2);
  EXPECT_LT(fake.registered_bytes, kMiB) << "what nobody used was given back";
}

/// The device writes into the caller's memory, which the caller gets back.
TEST_F(Loans, are_read_no_further_when_the_reader_shuts_down) {
  const Bytes large = numbered(1, kMiB);
  Bytes into(kMiB);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  fake.is_holding = true;
  EXPECT_EQ(receive(*other, into), -EAGAIN);
  const int before = fake.objects;
  other->shutdown();
  EXPECT_EQ(fake.objects, before - 2) << "the queue pair, and the region";
  fake.carry_out_all();
  EXPECT_EQ(into, Bytes(kMiB));
  EXPECT_EQ(receive(*other, into), 0);
}

TEST_F(Loans, are_void_when_the_lender_shuts_down) {
  const Bytes large = numbered(1, kMiB);
  const std::size_t before = fake.registered_bytes;
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  one->shutdown();
  EXPECT_EQ(fake.registered_bytes, before);
  EXPECT_EQ(receive(*other, 100), 0) << "the end";
  EXPECT_EQ(fake.reads, 0);
}

/// Its key is of no use any more, though the memory is the program's and stays declared.
TEST_F(Loans, of_declared_memory_cannot_be_read_once_the_lender_shuts_down) {
  Bytes from = numbered(1, kMiB);
  regions().declare(from);
  const std::size_t before = fake.registered_bytes;
  Bytes into(kMiB);
  EXPECT_EQ(lend(*one, from), -EAGAIN);
  fake.is_holding = true;
  EXPECT_EQ(receive(*other, into), -EAGAIN);
  one->shutdown();
  EXPECT_LE(fake.registered_bytes, before + kMiB) << "the reader's own memory";
  fake.is_holding = false;
  fake.carry_out_all();
  EXPECT_EQ(into, Bytes(kMiB));
  connect();
  EXPECT_EQ(fake.registered_bytes, before);
  EXPECT_EQ(lend(*one, from), -EAGAIN);
  EXPECT_EQ(fake.registered_bytes, before + kMiB) << "it is registered anew";
}

TEST_F(Loans, of_declared_memory_cannot_be_read_once_the_lenders_link_has_failed) {
  Bytes from = numbered(1, kMiB);
  regions().declare(from);
  const std::size_t before = fake.registered_bytes;
  EXPECT_EQ(lend(*one, from), -EAGAIN);
  say(*one, Kind::taken, 1, 0, 0);
  expect_failure(*one, "makes no sense");
  EXPECT_EQ(fake.registered_bytes, before);
}

/// Who reads over another link reads on.
TEST_F(Loans, of_memory_that_two_peers_read_end_one_by_one) {
  Bytes from = numbered(1, kMiB);
  regions().declare(from);
  VerbsStream second(engine, *device, 2);
  VerbsStream its_peer(engine, *device, 0);
  second.connect(its_peer.end_point());
  its_peer.connect(second.end_point());
  EXPECT_EQ(lend(*one, from), -EAGAIN);
  EXPECT_EQ(lend(second, from), -EAGAIN);
  one->shutdown();
  Bytes into(kMiB);
  EXPECT_EQ(receive(its_peer, into), static_cast<int>(kMiB));
  EXPECT_EQ(into, from);
}

TEST_F(Loans, that_cannot_be_read_are_told_in_words) {
  fake.status_of = [](const ibv_send_wr& request) {
    return request.opcode == IBV_WR_RDMA_READ ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
  };
  const Bytes large = numbered(0, kMiB);
  EXPECT_EQ(lend(*one, large), -EAGAIN);
  Bytes into(kMiB);
  EXPECT_EQ(receive(*other, into), -EIO);
  expect_failure(*other, "a RDMA READ of 1048576 bytes for rank 0 failed");
}

TEST_F(Loans, that_make_no_sense_end_the_stream) {
  const Bytes large(kMiB);
  const std::function<void()> wrong[] = {
      [&] { lend_by_hand({.address = 1, .key = 1, .bytes = 0}); },
      [&] { lend_by_hand({.address = 1, .key = 1, .bytes = LoanTerms::kMostBytes + 1}); },
      [&] {
        for (std::uint32_t i = 0; i < kMostLoans; ++i) EXPECT_TRUE(one->try_lend({}, large));
        say(*other, Immediate::loan(0).encode(), LoanTerms::kBytes);  // one too many
      },
      [&] { say(*other, Kind::taken, 0, 1, 0); },  // nothing was lent
      [&] { say(*other, Kind::enough, 0, 1, 0); },
      [&] {
        (void)lend(*other, large);
        say(*other, Kind::taken, 0, 0, 0);  // none of them
      },
      [&] {
        (void)lend(*other, large);
        say(*other, Kind::taken, 0, 2, 0);  // more than one
      },
  };
  for (const auto& say_it : wrong) {
    connect();
    say_it();
    EXPECT_EQ(other->try_receive_some({}), -EIO);
    expect_failure(*other, "rank 0 says by RDMA what makes no sense");
  }
}

TEST_F(Loans, wake_who_sleeps_until_they_were_read) {
  TaskScope services;
  const Bytes large = numbered(3, kMiB);
  Bytes into(kMiB);
  auto lends = [&]() -> Task<> {
    EXPECT_EQ(lend(*one, large), -EAGAIN);
    co_await one->until_writable();
    EXPECT_EQ(lend(*one, large), static_cast<int>(kMiB));
  };
  auto reads = [&]() -> Task<> {
    co_await other->until_readable();
    fake.is_holding = true;
    EXPECT_EQ(receive(*other, into), -EAGAIN);
    co_await other->until_readable();
    EXPECT_EQ(receive(*other, into), static_cast<int>(kMiB));
  };
  auto device_is_late = [&]() -> Task<> {
    co_await engine.sleep_for(std::chrono::milliseconds(5));
    fake.is_holding = false;
    fake.carry_out_all();
  };
  auto all = [&]() -> Task<> { co_await when_all(lends(), reads(), device_is_late()); };
  auto whole = [&]() -> Task<> {
    services.spawn(device->watch_completions(engine));
    const auto error = co_await test::error_of(with_deadline(std::chrono::seconds(60), all()));
    EXPECT_FALSE(error) << error->what();
    services.cancel();
    co_await services.join();
  };
  engine.run(whole());
  EXPECT_EQ(into, large);
}

}  // namespace
}  // namespace cohort::verbs::loans_test
