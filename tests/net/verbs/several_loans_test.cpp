// SPDX-License-Identifier: Apache-2.0
// Several loans that are open at once: their place among the bytes, and how many there may be.
#include <cohort/tests/net/verbs/verbs_streams.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>

namespace cohort::verbs::several_loans_test {
namespace {

using Kind = Immediate::Kind;
constexpr std::size_t kBytes = std::size_t{128} << 10;
constexpr std::size_t kPlaces = 4 * kMostLoans;

class SeveralLoans : public VerbsStreams {
 public:
  void SetUp() override {
    VerbsStreams::SetUp();
    from = numbered(0, kPlaces * kBytes);
    into.resize(kPlaces * kBytes);
    declare();
  }
  void declare() {
    device->regions().declare(from);
    device->regions().declare(into);
  }
  void use_pairs(std::uint8_t pairs) {
    settings.pairs = pairs;
    start_anew();
    declare();
  }
  std::span<std::byte> source(std::size_t i) { return std::span(from).subspan(i % kPlaces * kBytes, kBytes); }
  std::span<std::byte> place(std::size_t i) { return std::span(into).subspan(i % kPlaces * kBytes, kBytes); }
  [[nodiscard]] bool has_come(std::size_t i) { return std::ranges::equal(source(i), place(i)); }
  /// Before each a header of its own, so that it is known which one comes.
  bool lend(std::size_t i) { return one->try_lend(header(i), source(i)); }
  static Bytes header(std::size_t i) { return numbered(i * 1000, LoanTerms::kMostBytesBefore); }
  bool fetch(std::size_t i) {
    Bytes start(1000);
    const int bytes = receive(*other, start);
    if (bytes == -EAGAIN) return false;
    EXPECT_EQ(bytes, static_cast<int>(LoanTerms::kMostBytesBefore));
    start.resize(LoanTerms::kMostBytesBefore);
    EXPECT_EQ(start, header(i));
    return other->try_fetch(place(i));
  }
  /// What has completed is found where somebody looks.
  static void look(VerbsStream& stream) { EXPECT_EQ(stream.try_receive_some({}), -EAGAIN); }

  Bytes from, into;
};

TEST_F(SeveralLoans, are_read_while_those_behind_them_come) {
  constexpr std::size_t kCount = 5;
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_TRUE(lend(i));
  fake.is_holding = true;
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_TRUE(fetch(i));
  EXPECT_EQ(fake.reads, static_cast<int>(kCount)) << "all are under way";
  look(*other);
  EXPECT_EQ(other->fetched(), 0);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(fake.carry_out());
    look(*other);
    EXPECT_EQ(other->fetched(), 1);
    EXPECT_TRUE(has_come(i));
  }
  EXPECT_EQ(one->returned(), 0) << "nobody has said so";
  fake.is_holding = false;
  fake.carry_out_all();
  look(*one);
  EXPECT_EQ(one->returned(), static_cast<int>(kCount));
  EXPECT_EQ(one->returned(), 0);
  EXPECT_EQ(one->traffic().lent, kCount * kBytes);
  EXPECT_EQ(other->traffic().read, kCount * kBytes);
}

TEST_F(SeveralLoans, are_answered_together_where_they_were_read_together) {
  for (std::size_t i = 0; i < kMostLoans; ++i) ASSERT_TRUE(lend(i));
  const int posted = fake.sends_posted;
  fake.is_holding = true;
  for (std::size_t i = 0; i < kMostLoans; ++i) ASSERT_TRUE(fetch(i));
  fake.carry_out_all();
  look(*other);
  EXPECT_EQ(fake.sends_posted, posted + static_cast<int>(kMostLoans) + 1);
}

TEST_F(SeveralLoans, stand_where_they_were_sent_among_other_bytes) {
  EXPECT_EQ(send(*one, numbered(1, 100)), 100);
  ASSERT_TRUE(lend(0));
  EXPECT_EQ(send(*one, numbered(2, 50)), 50);
  ASSERT_TRUE(lend(1));
  ASSERT_TRUE(lend(2));
  EXPECT_EQ(send(*one, numbered(3, 20)), 20);
  const auto expect_bytes = [&](std::size_t seed, std::size_t bytes, std::size_t loan) {
    Bytes all(1000);
    const int count = receive(*other, all);
    all.resize(static_cast<std::size_t>(std::max(count, 0)));
    Bytes expected = numbered(seed, bytes);
    if (loan < kPlaces) {
      const Bytes last = header(loan);
      expected.insert(expected.end(), last.begin(), last.end());
    }
    EXPECT_EQ(all, expected);
  };
  expect_bytes(1, 100, 0);
  EXPECT_FALSE(other->try_fetch(place(0).first(kBytes - 1))) << "another size";
  EXPECT_TRUE(other->try_fetch(place(0)));
  EXPECT_FALSE(other->try_fetch(place(1))) << "bytes come first";
  expect_bytes(2, 50, 1);
  EXPECT_TRUE(other->try_fetch(place(1)));
  EXPECT_TRUE(fetch(2));
  expect_bytes(3, 20, kPlaces);
  look(*other);
  EXPECT_EQ(other->fetched(), 3);
  EXPECT_TRUE(has_come(0) && has_come(1) && has_come(2));
}

TEST_F(SeveralLoans, wait_where_as_many_are_open_as_there_may_be) {
  for (std::size_t i = 0; i < kMostLoans; ++i) ASSERT_TRUE(lend(i));
  EXPECT_FALSE(lend(kMostLoans));
  EXPECT_EQ(one->try_send_some(header(0), source(0)), -EAGAIN) << "it is not copied";
  EXPECT_EQ(send(*one, 10), 10) << "which nobody has to wait for";
  EXPECT_EQ(one->try_send_some(header(0), source(0)), -EAGAIN);
  TaskScope services;
  bool is_writable = false;
  auto waits = [&]() -> Task<> {
    co_await one->until_writable();
    is_writable = true;
  };
  auto reads = [&]() -> Task<> {
    co_await engine.sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(is_writable);
    EXPECT_TRUE(fetch(0));
    look(*other);
  };
  auto whole = [&]() -> Task<> {
    services.spawn(device->watch_completions(engine));
    services.spawn(reads());
    const auto error = co_await test::error_of(with_deadline(std::chrono::seconds(60), waits()));
    EXPECT_FALSE(error) << error->what();
    services.cancel();
    co_await services.join();
  };
  engine.run(whole());
  EXPECT_TRUE(lend(kMostLoans));
}

TEST_F(SeveralLoans, have_no_more_reads_under_way_than_the_other_device_serves) {
  EndPoint few = other->end_point();
  few.reads = 2;
  VerbsStream reader(engine, *device, 1), lender(engine, *device, 0);
  few = lender.end_point();
  few.reads = 2;
  reader.connect(few);
  lender.connect(reader.end_point());
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(lender.try_lend({}, source(i)));
  fake.is_holding = true;
  look(reader);
  EXPECT_TRUE(reader.try_fetch(place(0)));
  EXPECT_TRUE(reader.try_fetch(place(1)));
  EXPECT_FALSE(reader.try_fetch(place(2)));
  EXPECT_EQ(reader.try_receive_some(place(2)), -EAGAIN) << "in its turn";
  EXPECT_EQ(fake.reads, 2);
  fake.carry_out();
  look(reader);
  EXPECT_TRUE(reader.try_fetch(place(2)));
}

TEST_F(SeveralLoans, of_other_calls_are_told_apart) {
  ASSERT_TRUE(lend(0));
  EXPECT_EQ(one->try_send_some(header(1), source(1)), static_cast<int>(LoanTerms::kMostBytesBefore));
  EXPECT_FALSE(lend(2)) << "nothing follows the one that is asked for";
  EXPECT_TRUE(fetch(0));
  look(*other);
  EXPECT_EQ(one->try_send_some({}, source(1)), -EAGAIN);
  EXPECT_EQ(one->returned(), 1);
  EXPECT_TRUE(fetch(1));
  look(*other);
  EXPECT_EQ(one->try_send_some({}, source(1)), static_cast<int>(kBytes));
  EXPECT_EQ(one->returned(), 0);
  EXPECT_TRUE(lend(2));
}

TEST_F(SeveralLoans, that_are_being_read_are_read_no_further_when_the_reader_shuts_down) {
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(lend(i));
  fake.is_holding = true;
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(fetch(i));
  fake.carry_out();
  other->shutdown();
  fake.carry_out_all();
  EXPECT_TRUE(has_come(0));
  EXPECT_FALSE(has_come(1) || has_come(2));
}

TEST_F(SeveralLoans, are_all_void_when_the_lender_shuts_down) {
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(lend(i));
  const std::size_t before = fake.registered_bytes;
  one->shutdown();
  EXPECT_EQ(fake.registered_bytes, before - from.size()) << "what was declared, too";
  EXPECT_EQ(one->returned(), 0);
  (void)receive(*other, 1000);
  EXPECT_FALSE(other->try_fetch(place(0)));
  EXPECT_EQ(fake.reads, 0);
}

TEST_F(SeveralLoans, that_cannot_be_read_are_told_of_behind_those_that_were) {
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(lend(i));
  fake.is_holding = true;
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(fetch(i));
  fake.carry_out();
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_REM_ACCESS_ERR; };
  fake.carry_out_all();
  EXPECT_EQ(other->try_receive_some({}), -EIO);
  EXPECT_EQ(other->fetched(), 1);
  EXPECT_EQ(other->fetched(), -EIO);
  expect_failure(*other, "a RDMA READ of 131072 bytes for rank 0 failed");
}

/// What stands in the ring behind them is not taken for their bytes.
TEST_F(SeveralLoans, that_were_not_read_hold_back_what_is_behind_them_when_the_stream_fails) {
  for (const bool has_begun : {false, true}) {
    connect();
    ASSERT_TRUE(lend(0));
    EXPECT_EQ(send(*one, 50), 50);
    EXPECT_EQ(receive(*other, 1000), static_cast<int>(LoanTerms::kMostBytesBefore));
    if (has_begun) {
      const auto part = place(0).first(kBytes / 2);
      EXPECT_EQ(other->try_receive_some(part), static_cast<int>(kBytes / 2));
    }
    say(*other, Kind::credit, 1, 0, 0);
    EXPECT_EQ(receive(*other, 1000), -EIO) << "it begins to read, and finds that";
    EXPECT_EQ(receive(*other, 1000), -EIO) << "begun: " << has_begun;
  }
}

/// Both ends and the device, each of which does one of the things that it may do next: messages of a header
/// and a loan, or of a header alone.
class LoanInterleaving : public SeveralLoans {
 protected:
  static constexpr std::size_t kCount = 300;

  void begin(unsigned seed, std::uint8_t pairs) {
    use_pairs(pairs);
    seed_ = seed;
    random_.seed(seed);
    fake.is_holding = true;
    fetching_.clear();
    sent_ = sent_of_header_ = asked_ = came_ = returned_ = 0;
    is_behind_header_ = false;
  }
  [[nodiscard]] bool is_over() const { return came_ == kCount; }
  void step() {
    switch (random_() % 5) {
      case 0: return send_some();
      case 1: return ask();
      case 2: return collect();
      case 3: returned_ += static_cast<std::size_t>(one->returned()); return;
      default:
        carry_out_some();
        if (random_() % 4 == 0) (void)one->try_receive_some({});
        if (random_() % 4 == 0) (void)other->try_receive_some({});
    }
  }
  [[nodiscard]] std::size_t loans() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kCount; ++i) count += is_loan(i) ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::size_t returned() const { return returned_; }

 private:
  [[nodiscard]] bool is_loan(std::size_t i) const { return (i * 7 + seed_) % 3 != 0; }

  /// The oldest request of any pair: they know nothing of each other.
  void carry_out_some() {
    const std::vector<std::uint32_t> waiting = fake.waiting();
    if (!waiting.empty()) fake.carry_out_of(waiting[random_() % waiting.size()]);
  }

  void send_some() {
    if (sent_ == kCount) return;
    if (is_loan(sent_)) {
      sent_ += lend(sent_) ? 1 : 0;
      return;
    }
    const Bytes all = header(sent_);
    sent_of_header_ += static_cast<std::size_t>(
        std::max(0, one->try_send_some(std::span(all).subspan(sent_of_header_), {})));
    if (sent_of_header_ != all.size()) return;
    ++sent_;
    sent_of_header_ = 0;
  }
  void ask() {
    if (asked_ == kCount || asked_ - came_ > kPlaces / 2) return;
    if (!is_behind_header_) {
      Bytes start(LoanTerms::kMostBytesBefore);
      const int bytes = receive(*other, start);
      if (bytes == -EAGAIN) return;
      ASSERT_EQ(bytes, static_cast<int>(start.size()));
      ASSERT_EQ(start, header(asked_)) << "message " << asked_;
    }
    is_behind_header_ = is_loan(asked_) && !other->try_fetch(place(asked_));
    if (is_behind_header_) return;
    if (is_loan(asked_)) fetching_.push_back(asked_);
    ++asked_;
    came_ = fetching_.empty() ? asked_ : fetching_.front();
  }
  void collect() {
    const int count = other->fetched();
    ASSERT_LE(count, static_cast<int>(fetching_.size()));
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(has_come(fetching_.front())) << "message " << fetching_.front();
      std::ranges::fill(place(fetching_.front()), std::byte{0});
      fetching_.pop_front();
    }
    came_ = fetching_.empty() ? asked_ : fetching_.front();
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
  std::deque<std::size_t> fetching_;
  std::size_t sent_ = 0;
  std::size_t sent_of_header_ = 0;
  std::size_t asked_ = 0;
  std::size_t came_ = 0;
  std::size_t returned_ = 0;
  bool is_behind_header_ = false;
};

/// Whatever is carried out when, and whoever looks when.
TEST_F(LoanInterleaving, of_both_ends_and_the_device_brings_what_was_sent_in_its_order) {
  for (const auto pairs : std::to_array<std::uint8_t>({1, 2, 5}))
    for (unsigned seed = 0; seed < 20; ++seed) {
      begin(seed, pairs);
      for (int steps = 0; !is_over() || returned() != loans(); ++steps) {
        ASSERT_LT(steps, 100'000) << "nobody gets on; seed " << seed << ", pairs " << int{pairs};
        step();
        ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", pairs " << int{pairs};
      }
      fake.is_holding = false;
      fake.carry_out_all();
    }
}

}  // namespace
}  // namespace cohort::verbs::several_loans_test
