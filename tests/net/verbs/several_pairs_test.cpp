// SPDX-License-Identifier: Apache-2.0
// Connections of several queue pairs, each of which reads a part of what was lent.
#include <cohort/tests/net/verbs/verbs_streams.h>

#include <algorithm>
#include <array>
#include <set>

namespace cohort::verbs::several_pairs_test {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::uint8_t kPairs = 3;

class SeveralPairs : public VerbsStreams {
 protected:
  void SetUp() override {
    settings.pairs = kPairs;
    VerbsStreams::SetUp();
    device->regions().declare(from);
    device->regions().declare(into);
  }
  /// The end that belongs to rank 1, made anew on a device of so many pairs, and connected.
  void make_other_of(std::uint8_t pairs) {
    other.reset();
    one.reset();
    Settings others = settings;
    others.pairs = pairs;
    other_device.emplace(fake.library(), *choose_port(fake.library(), others).port, others);
    one.emplace(engine, *device, 1);
    other.emplace(engine, *other_device, 0);
    one->connect(other->end_point());
    other->connect(one->end_point());
  }
  void TearDown() override {
    one.reset();
    other.reset();
    other_device.reset();
    VerbsStreams::TearDown();
  }

  [[nodiscard]] std::span<std::byte> source(std::size_t at, std::size_t bytes) {
    return std::span(from).subspan(at, bytes);
  }
  [[nodiscard]] std::span<std::byte> place(std::size_t at, std::size_t bytes) {
    return std::span(into).subspan(at, bytes);
  }
  [[nodiscard]] bool has_come(std::size_t at, std::size_t bytes) {
    return std::ranges::equal(source(at, bytes), place(at, bytes));
  }
  void lend(std::size_t at, std::size_t bytes) { ASSERT_TRUE(one->try_lend({}, source(at, bytes))); }
  /// The device is asked to read it, and waits; on how many pairs.
  std::size_t begin(std::size_t at, std::size_t bytes) {
    const std::size_t before = fake.waiting().size();
    fake.is_holding = true;
    look(*other);
    EXPECT_TRUE(other->try_fetch(place(at, bytes)));
    return fake.waiting().size() - before;
  }
  static void look(VerbsStream& stream) { EXPECT_EQ(stream.try_receive_some({}), -EAGAIN); }
  /// How many parts that pair of `other` has under way.
  [[nodiscard]] std::size_t under_way(std::size_t pair) const {
    const auto waiting = fake.waiting();
    return static_cast<std::size_t>(std::ranges::count(waiting, other->end_point().pairs[pair].number));
  }
  bool carry_out_of(std::size_t pair) { return fake.carry_out_of(other->end_point().pairs[pair].number); }

  Bytes from = numbered(0, 16 * kMiB);
  Bytes into = Bytes(16 * kMiB);
  std::optional<Device> other_device;
};

TEST_F(SeveralPairs, read_a_large_loan_in_parts_and_it_has_come_when_all_have) {
  lend(0, kMiB);
  EXPECT_EQ(begin(0, kMiB), kPairs);
  for (std::size_t pair = kPairs; pair-- > 0;) {
    EXPECT_EQ(under_way(pair), 1U);
    EXPECT_EQ(other->fetched(), 0) << pair;
    EXPECT_FALSE(has_come(0, kMiB));
    EXPECT_TRUE(carry_out_of(pair));
    look(*other);
  }
  EXPECT_EQ(other->fetched(), 1);
  EXPECT_TRUE(has_come(0, kMiB));
  fake.carry_out_all();
  look(*one);
  EXPECT_EQ(one->returned(), 1);
  EXPECT_EQ(one->traffic().lent, kMiB);
  EXPECT_EQ(other->traffic().read, kMiB);
}

/// The lender would write there, or free it.
TEST_F(SeveralPairs, answer_for_no_loan_of_which_a_part_is_missing) {
  lend(0, kMiB);
  (void)begin(0, kMiB);
  for (std::size_t pair = 0; pair + 1 < kPairs; ++pair) EXPECT_TRUE(carry_out_of(pair));
  look(*other);
  EXPECT_EQ(fake.waiting(), std::vector{other->end_point().pairs[kPairs - 1].number});
  look(*one);
  EXPECT_EQ(one->returned(), 0);
}

TEST_F(SeveralPairs, cut_loans_of_any_size_so_that_all_of_them_comes) {
  const std::size_t least = LoanReads::kLeastPartBytes;
  for (const std::size_t bytes :
       {2 * least, 2 * least + 1, 3 * least - 1, 3 * least, 3 * least + 1, 4 * least + 4097, kMiB - 1,
        kMiB + 1, 5 * kMiB + 12'345, std::size_t{LoanTerms::kMostBytes}}) {
    std::ranges::fill(into, std::byte{0});
    fake.is_holding = false;
    lend(0, bytes);
    const std::size_t parts = begin(0, bytes);
    EXPECT_EQ(parts, std::min<std::size_t>(bytes / least, kPairs)) << bytes;
    fake.carry_out_all();
    look(*other);
    EXPECT_EQ(other->fetched(), 1);
    EXPECT_TRUE(has_come(0, bytes)) << bytes;
    EXPECT_TRUE(bytes == into.size() || into[bytes] == std::byte{0}) << bytes;
    fake.carry_out_all();
    look(*one);
    EXPECT_EQ(one->returned(), 1);
  }
}

TEST_F(SeveralPairs, take_turns_with_what_is_too_small_for_all) {
  const std::size_t bytes = 2 * LoanReads::kLeastPartBytes;
  for (std::size_t i = 0; i < 3; ++i) lend(i * bytes, bytes);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(begin(i * bytes, bytes), 2U);
  for (std::size_t pair = 0; pair < kPairs; ++pair) EXPECT_EQ(under_way(pair), 2U) << pair;
  fake.carry_out_all();
}

TEST_F(SeveralPairs, bring_loans_in_their_order_though_later_ones_are_read_first) {
  for (std::size_t i = 0; i < 3; ++i) lend(i * kMiB, kMiB);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(begin(i * kMiB, kMiB), kPairs);
  for (const std::size_t pair : {std::size_t{2}, std::size_t{1}})
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(carry_out_of(pair));
  look(*other);
  EXPECT_EQ(other->fetched(), 0) << "the first pair has read nothing";
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(carry_out_of(0));
    look(*other);
    EXPECT_EQ(other->fetched(), 1);
    EXPECT_TRUE(has_come(i * kMiB, kMiB));
  }
}

TEST_F(SeveralPairs, read_what_is_received_piece_by_piece_too) {
  EXPECT_EQ(one->try_send_some({}, source(0, kMiB)), -EAGAIN);
  fake.is_holding = true;
  for (std::size_t at = 0; at < kMiB;) {
    const std::size_t bytes = std::min<std::size_t>(200'000, kMiB - at);
    EXPECT_EQ(other->try_receive_some(place(at, bytes)), -EAGAIN);
    EXPECT_EQ(fake.waiting().size(), bytes > 100'000 ? 3U : 1U) << "at " << at;
    while (fake.waiting().size() > 1) EXPECT_TRUE(fake.carry_out_of(fake.waiting().back()));
    EXPECT_EQ(other->try_receive_some(place(at, bytes)), -EAGAIN) << "a part is missing, at " << at;
    EXPECT_TRUE(fake.carry_out());
    EXPECT_EQ(other->try_receive_some(place(at, bytes)), static_cast<int>(bytes));
    at += bytes;
  }
  EXPECT_TRUE(has_come(0, kMiB));
  fake.carry_out_all();
  EXPECT_EQ(one->try_send_some({}, source(0, kMiB)), static_cast<int>(kMiB));
}

TEST_F(SeveralPairs, have_no_more_under_way_on_each_than_the_other_device_serves) {
  other.emplace(engine, *device, 0);
  one.emplace(engine, *device, 1);
  EndPoint few = one->end_point();
  few.reads = 2;
  other->connect(few);
  one->connect(other->end_point());
  for (std::size_t i = 0; i < 3; ++i) lend(i * kMiB, kMiB);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(begin(i * kMiB, kMiB), kPairs);
  EXPECT_FALSE(other->try_fetch(place(2 * kMiB, kMiB)));
  for (std::size_t pair = 1; pair < kPairs; ++pair) EXPECT_TRUE(carry_out_of(pair));
  look(*other);
  EXPECT_FALSE(other->try_fetch(place(2 * kMiB, kMiB))) << "the first pair is full";
  EXPECT_TRUE(carry_out_of(0));
  look(*other);
  EXPECT_TRUE(other->try_fetch(place(2 * kMiB, kMiB)));
  EXPECT_EQ(fake.reads, 3 * kPairs);
  fake.carry_out_all();
}

TEST_F(SeveralPairs, leave_the_last_request_of_the_first_to_the_end) {
  for (std::size_t i = 0; i < 2; ++i) lend(i * kMiB, kMiB);
  look(*other);
  fake.is_holding = true;
  for (std::uint32_t i = 0; i < kMostLoans; ++i) ASSERT_TRUE(other->try_lend({}, source(0, kMiB)));
  for (std::uint32_t i = kMostLoans; i + 1 < kSends; ++i) ASSERT_EQ(send(*other, 1), 1);
  EXPECT_FALSE(other->try_fetch(place(0, kMiB)));
  EXPECT_EQ(other->try_receive_some(place(0, kMiB)), -EAGAIN);
  EXPECT_EQ(fake.reads, 0);
  fake.carry_out_all();
  look(*other);
  EXPECT_EQ(begin(0, kMiB), kPairs);
}

/// The library that is made up asserts that its queue takes them.
TEST_F(SeveralPairs, have_room_for_the_completions_of_all_that_may_be_under_way) {
  settings.pairs = kMostPairs;
  start_anew();
  device->regions().declare(from);
  device->regions().declare(into);
  for (std::size_t i = 0; i < kMostLoans; ++i) lend(i * kMiB, kMiB);
  for (std::size_t i = 0; i < kMostLoans; ++i) EXPECT_EQ(begin(i * kMiB, kMiB), kMostPairs);
  fake.carry_out_all();
  EXPECT_EQ(send(*one, 100), 100);
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_RETRY_EXC_ERR; };
  EXPECT_EQ(send(*other, 100), 100);
  fake.carry_out_all();
  for (int look = 0; look < 3; ++look) (void)other->try_receive_some({});
  EXPECT_EQ(other->fetched(), static_cast<int>(kMostLoans));
  EXPECT_TRUE(has_come(0, into.size()));
  expect_failure(*other, "retries exceeded");
}

TEST_F(SeveralPairs, are_as_many_as_both_ends_have) {
  struct Ends {
    std::uint8_t own, others;
  };
  for (const Ends ends : {Ends{3, 2}, Ends{3, 5}, Ends{3, 1}}) {
    const int before = fake.objects;
    make_other_of(ends.others);
    const std::uint8_t least = std::min(ends.own, ends.others);
    const int devices_pairs = 2 * least - 2 * kPairs;
    constexpr int kDevice = 3;  // with its domain and its channel
    EXPECT_EQ(fake.objects, before + devices_pairs + kDevice) << "those that nobody uses are given back";
    const int reads = fake.reads;
    lend(0, kMiB);
    look(*other);
    EXPECT_TRUE(other->try_fetch(place(0, kMiB)));
    EXPECT_EQ(fake.reads, reads + least);
    look(*other);
    EXPECT_TRUE(has_come(0, kMiB));
    EXPECT_TRUE(other->try_lend({}, source(0, kMiB)));
    look(*one);
    EXPECT_TRUE(one->try_fetch(place(kMiB, kMiB)));
    EXPECT_EQ(fake.reads, reads + 2 * least) << "in both directions";
    one.reset();
    other.reset();
    other_device.reset();
    connect();
  }
}

TEST_F(SeveralPairs, that_the_device_has_not_are_asked_for_less) {
  fake.most_pairs = 2 * kPairs + 2;
  const auto error = test::error_from([&] { const VerbsStream third(engine, *device, 2); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), ::testing::HasSubstr("each connection takes 3 (COHORT_IB_QPS_PER_CONNECTION)"));
}

/// None writes into memory that its caller has back.
TEST_F(SeveralPairs, stop_all_before_anybody_is_told_that_one_has_failed) {
  for (std::size_t failing = 0; failing < kPairs; ++failing) {
    connect();
    fake.is_holding = false;
    const std::uint32_t number = other->end_point().pairs[failing].number;
    lend(0, kMiB);
    lend(kMiB, kMiB);
    (void)begin(0, kMiB);
    (void)begin(kMiB, kMiB);
    const int before = fake.objects;
    const int stopped = fake.pairs_stopped;
    fake.status_of = [](const ibv_send_wr&) { return IBV_WC_RETRY_EXC_ERR; };
    EXPECT_TRUE(carry_out_of(failing));
    fake.status_of = nullptr;
    EXPECT_EQ(other->fetched(), 0) << "nobody has looked";
    EXPECT_EQ(other->try_receive_some({}), -EIO);
    EXPECT_EQ(fake.pairs_stopped, stopped + kPairs);
    EXPECT_EQ(fake.objects, before - kPairs) << "all its pairs, and no region that is declared";
    EXPECT_TRUE(fake.waiting().empty());
    fake.carry_out_all();
    EXPECT_EQ(other->fetched(), -EIO);
    EXPECT_EQ(into, Bytes(into.size()));
    expect_failure(*other, fmt::format("(queue pair {}): a RDMA READ of ", number));
    EXPECT_THAT(other->explain(EIO), ::testing::HasSubstr("retries exceeded"));
  }
}

TEST_F(SeveralPairs, that_are_refused_amid_a_read_stop_those_that_read) {
  lend(0, kMiB);
  look(*other);
  fake.is_holding = true;
  int posted = 0;
  fake.refuses_send = [&](const ibv_send_wr&) { return ++posted == kPairs ? ENOMEM : 0; };
  EXPECT_TRUE(other->try_fetch(place(0, kMiB)));
  EXPECT_TRUE(fake.waiting().empty()) << "the pairs are gone";
  EXPECT_EQ(other->fetched(), -EIO);
  EXPECT_EQ(into, Bytes(into.size()));
  expect_failure(*other, "a request to send to rank 0 was refused: Cannot allocate memory");
}

/// What was read before, whole and in order, was fetched.
TEST_F(SeveralPairs, tell_what_had_come_before_one_failed) {
  for (std::size_t i = 0; i < 3; ++i) lend(i * kMiB, kMiB);
  for (std::size_t i = 0; i < 3; ++i) (void)begin(i * kMiB, kMiB);
  for (std::size_t pair = 0; pair < kPairs; ++pair) EXPECT_TRUE(carry_out_of(pair));
  EXPECT_TRUE(carry_out_of(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(carry_out_of(1));
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_REM_ACCESS_ERR; };
  EXPECT_TRUE(carry_out_of(2));
  fake.status_of = nullptr;
  EXPECT_TRUE(carry_out_of(0)) << "the third loan lacks a part that was never read, too";
  EXPECT_EQ(other->try_receive_some({}), -EIO);
  EXPECT_EQ(other->fetched(), 1);
  EXPECT_EQ(other->fetched(), -EIO);
  EXPECT_TRUE(has_come(0, kMiB));
}

/// The first pair is flushed with all its receives, more than one look takes, before the cause is there.
TEST_F(SeveralPairs, tell_the_cause_and_not_what_was_flushed_on_another_one) {
  lend(0, kMiB);
  (void)begin(0, kMiB);
  fake.flushes_receives_first = true;
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_WR_FLUSH_ERR; };
  EXPECT_TRUE(carry_out_of(0));
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_RETRY_EXC_ERR; };
  EXPECT_TRUE(carry_out_of(2));
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_WR_FLUSH_ERR; };
  EXPECT_TRUE(carry_out_of(1));
  const std::uint32_t number = other->end_point().pairs[2].number;
  expect_failure(*other, fmt::format("(queue pair {}): a RDMA READ", number));
  EXPECT_THAT(other->explain(EIO), ::testing::HasSubstr("retries exceeded"));
}

TEST_F(SeveralPairs, read_no_further_when_the_reader_shuts_down) {
  lend(0, kMiB);
  (void)begin(0, kMiB);
  const int before = fake.objects;
  EXPECT_TRUE(carry_out_of(1));
  const Bytes was_read = into;
  other->shutdown();
  EXPECT_EQ(fake.objects, before - kPairs);
  fake.carry_out_all();
  EXPECT_EQ(into, was_read);
  EXPECT_EQ(other->fetched(), 0);
}

/// A part of the loan that one of them reads is void with the loan.
TEST_F(SeveralPairs, read_nothing_once_the_lender_shuts_down) {
  lend(0, kMiB);
  (void)begin(0, kMiB);
  one->shutdown();
  for (std::size_t pair = kPairs; pair-- > 1;) EXPECT_TRUE(carry_out_of(pair));
  EXPECT_EQ(other->try_receive_some({}), -EIO);
  EXPECT_EQ(into, Bytes(into.size()));
}

TEST_F(SeveralPairs, that_break_end_their_stream) {
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    connect();
    fake.raise_of_pair(IBV_EVENT_QP_FATAL, one->end_point().pairs[pair].number);
    run_until_readable(*one);
    expect_failure(*one, "MTU 4096 says: queue error");
    EXPECT_EQ(receive(*other, 1), -EAGAIN);
  }
}

TEST_F(SeveralPairs, wake_who_sleeps_whichever_was_the_last) {
  lend(0, kMiB);
  (void)begin(0, kMiB);
  TaskScope services;
  auto last_is_late = [&]() -> Task<> {
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      co_await engine.sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(other->fetched(), 0) << pair;
      EXPECT_TRUE(carry_out_of(pair));
    }
  };
  auto is_answered = [&]() -> Task<> {
    while (fake.waiting() != std::vector{other->end_point().pairs[0].number} || under_way(1) != 0)
      co_await engine.sleep_for(std::chrono::milliseconds(1));
  };
  auto whole = [&]() -> Task<> {
    services.spawn(device->watch_completions(engine));
    co_await last_is_late();
    const auto error = co_await test::error_of(with_deadline(std::chrono::seconds(60), is_answered()));
    EXPECT_FALSE(error) << error->what();
    services.cancel();
    co_await services.join();
  };
  engine.run(whole());
  EXPECT_EQ(other->fetched(), 1);
}

/// Through those that only read, the peer could write no more than through the rings' one: nothing at all.
TEST_F(SeveralPairs, let_the_peer_write_by_the_first_only) {
  std::set<std::uint32_t> numbers;
  const EndPoint own = one->end_point();
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    EXPECT_EQ(fake.access_of(own.pairs[pair].number) & IBV_ACCESS_REMOTE_WRITE,
              pair == 0 ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0U);
    numbers.insert(own.pairs[pair].number);
  }
  EXPECT_EQ(numbers.size(), kPairs);
}

}  // namespace
}  // namespace cohort::verbs::several_pairs_test
