// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/ring.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace cohort::verbs::ring_test {
namespace {

using Kind = Immediate::Kind;

TEST(Immediate, comes_back_as_it_was) {
  for (const Immediate& immediate :
       {Immediate{Kind::data, 1, 0}, Immediate{Kind::data, kMessageBytes, 0},
        Immediate{Kind::credit, kRingBytes, kMostMessages}, Immediate{Kind::credit, 0, 16},
        Immediate{Kind::end, 0, 0}, Immediate::loan(0), Immediate::loan(LoanTerms::kMostBytesBefore),
        Immediate{Kind::taken, 0, 1}, Immediate{Kind::enough, 0, kMostLoans}})
    EXPECT_EQ(Immediate::decode(immediate.encode()), immediate);
}

TEST(Immediate, of_other_words_nothing_is_made) {
  EXPECT_FALSE(Immediate::decode(~0U));
  EXPECT_FALSE(Immediate::decode(Immediate{Kind::data, 1, 1}.encode())) << "data with messages";
  EXPECT_FALSE(Immediate::decode(Immediate{Kind::end, 1, 0}.encode())) << "an end with bytes";
  EXPECT_FALSE(Immediate::decode(Immediate{Kind::loan, LoanTerms::kBytes - 1, 0}.encode())) << "half terms";
  EXPECT_FALSE(Immediate::decode(Immediate::loan(LoanTerms::kMostBytesBefore + 1).encode())) << "beyond them";
  EXPECT_FALSE(Immediate::decode(Immediate{Kind::loan, LoanTerms::kBytes, 1}.encode())) << "with messages";
  EXPECT_FALSE(Immediate::decode(Immediate{Kind::taken, 1, 1}.encode())) << "an answer with bytes";
}

TEST(SendRing, gives_room_up_to_what_was_read_and_is_complete) {
  SendRing ring;
  for (std::size_t at = 0; at < kRingBytes; at += kMessageBytes) {
    EXPECT_EQ(ring.offset(), at);
    EXPECT_EQ(ring.room(), kMessageBytes);
    ring.add(kMessageBytes);
  }
  EXPECT_EQ(ring.room(), 0U);
  const std::uint64_t all = ring.sent();
  ring.complete(all);
  EXPECT_EQ(ring.room(), 0U) << "the receiver has not read it";
  EXPECT_TRUE(ring.credit(100, 1));
  EXPECT_EQ(ring.room(), 100U);

  SendRing other;
  for (std::size_t at = 0; at < kRingBytes; at += kMessageBytes) other.add(kMessageBytes);
  EXPECT_TRUE(other.credit(kRingBytes, 4));
  EXPECT_EQ(other.room(), 0U) << "the device may still read it";
  other.complete(200);
  EXPECT_EQ(other.room(), 200U);
}

TEST(SendRing, has_no_more_messages_on_their_way_than_receives_stand_ready) {
  SendRing ring;
  for (std::uint32_t i = 0; i < kMostMessages; ++i) ring.add(1);
  EXPECT_EQ(ring.room(), 0U);
  EXPECT_TRUE(ring.credit(0, 1));
  EXPECT_NE(ring.room(), 0U);
}

TEST(SendRing, refuses_credit_for_what_was_not_sent) {
  SendRing ring;
  ring.add(100);
  EXPECT_FALSE(ring.credit(101, 0));
  EXPECT_FALSE(ring.credit(0, 2));
  EXPECT_TRUE(ring.credit(100, 1));
  EXPECT_FALSE(ring.credit(1, 0));
}

TEST(ReceiveRing, refuses_what_it_has_no_room_for) {
  ReceiveRing ring;
  EXPECT_FALSE(ring.add(0));
  EXPECT_FALSE(ring.add(kRingBytes + 1));
  EXPECT_TRUE(ring.add(kRingBytes - 10));
  EXPECT_FALSE(ring.add(11));
  ring.consume(kRingBytes - 10);
  EXPECT_FALSE(ring.add(11)) << "not in one piece";
  EXPECT_TRUE(ring.add(10));
  EXPECT_EQ(ring.readable(), 10U);
}

/// Both ends of a connection, and what is on its way between them: each step is one that may come next.
class Interleaving {
 public:
  explicit Interleaving(unsigned seed) : random_(seed) {}

  [[nodiscard]] std::uint64_t read() const { return read_; }
  void step() {
    switch (below(5)) {
      case 0: return send();
      case 1: return arrive();
      case 2: return consume();
      case 3: return take_credit();
      default: return complete();
    }
  }

 private:
  std::size_t below(std::size_t most) { return random_() % most; }

  void send() {
    const std::size_t room = sender_.room();
    if (room == 0) return;
    const std::size_t bytes = 1 + below(below(2) == 0 ? room : std::min<std::size_t>(room, 80));
    sender_.add(bytes);
    sent_ += bytes;
    there_.push_back(bytes);
    requests_.push_back(sender_.sent());
    ASSERT_LE(sent_ - read_, kRingBytes) << "bytes are written over that nobody has read";
    ASSERT_LE(there_.size(), kMostMessages) << "more messages than receives";
  }
  void arrive() {
    if (there_.empty()) return;
    ASSERT_TRUE(receiver_.add(there_.front()));
    there_.pop_front();
  }
  void consume() {
    if (!receiver_.is_empty()) {
      const std::size_t bytes = 1 + below(receiver_.readable());
      receiver_.consume(bytes);
      read_ += bytes;
    }
    if (receiver_.is_credit_due()) back_.push_back(receiver_.take_credit());
    ASSERT_LE(back_.size(), kMostCredits) << "more credits than receives";
  }
  void take_credit() {
    if (back_.empty()) return;
    ASSERT_TRUE(sender_.credit(back_.front().bytes, back_.front().messages));
    back_.pop_front();
  }
  void complete() {
    if (requests_.empty()) return;
    const std::size_t count = 1 + below(requests_.size());
    sender_.complete(requests_[count - 1]);
    requests_.erase(requests_.begin(), requests_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  std::mt19937 random_;
  SendRing sender_;
  ReceiveRing receiver_;
  std::deque<std::size_t> there_;
  std::deque<Immediate> back_;
  std::deque<std::uint64_t> requests_;
  std::uint64_t sent_ = 0;
  std::uint64_t read_ = 0;
};

/// Whatever the sizes, who is slow and in which order credits, completions and messages come.
TEST(Rings, of_both_ends_agree_in_any_interleaving) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Interleaving ends(seed);
    std::uint64_t steps = 0;
    while (ends.read() < 40 * kRingBytes && !HasFatalFailure()) {
      ends.step();
      ASSERT_LT(++steps, 3'000'000U) << "nobody gets on; seed " << seed;
    }
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace cohort::verbs::ring_test
