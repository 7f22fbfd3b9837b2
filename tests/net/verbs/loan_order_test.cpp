// SPDX-License-Identifier: Apache-2.0
// What comes before large memory that is lent, and that nothing overtakes it.
#include <cohort/tests/net/verbs/verbs_streams.h>

namespace cohort::verbs::loan_order_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class LoanOrder : public VerbsStreams {
 public:
  int lend(std::span<const std::byte> before) { return one->try_send_some(before, large); }
  void expect_loan() {
    Bytes into(kMiB);
    EXPECT_EQ(receive(*other, into), static_cast<int>(kMiB));
    EXPECT_EQ(into, large);
    EXPECT_EQ(lend({}), static_cast<int>(kMiB));
    EXPECT_EQ(receive(*other, 1), -EAGAIN);
  }

  const Bytes header = numbered(7, LoanTerms::kMostBytesBefore);
  const Bytes large = numbered(100, kMiB);
};

TEST_F(LoanOrder, a_header_goes_in_the_request_of_the_loan_behind_it) {
  const int posted = fake.sends_posted;
  EXPECT_EQ(lend(header), 64);
  EXPECT_EQ(fake.sends_posted, posted + 1);
  EXPECT_EQ(lend({}), -EAGAIN);
  Bytes start(1000);
  EXPECT_EQ(receive(*other, start), 64);
  start.resize(64);
  EXPECT_EQ(start, header);
  expect_loan();
  EXPECT_EQ(fake.sends_posted, posted + 3) << "with the read and its answer";
}

TEST_F(LoanOrder, a_header_can_be_received_in_parts) {
  EXPECT_EQ(lend(header), 64);
  for (std::size_t at = 0; at < 64; at += 16) {
    Bytes part(16);
    EXPECT_EQ(receive(*other, part), 16);
    EXPECT_EQ(part, Bytes(header.begin() + at, header.begin() + at + 16));
    EXPECT_EQ(other->borrow_block().empty(), at + 16 < 64) << "the loan is what comes next";
    other->return_block();
  }
  expect_loan();
}

TEST_F(LoanOrder, a_header_waits_for_its_receiver_though_there_is_nothing_else) {
  EXPECT_EQ(lend(header), 64);
  EXPECT_EQ(other->try_receive_some({}), -EAGAIN);
  EXPECT_EQ(fake.reads, 0);
  EXPECT_EQ(receive(*other, 64), 64);
  expect_loan();
}

TEST_F(LoanOrder, more_than_a_header_goes_by_itself) {
  const Bytes longer = numbered(9, 65);
  EXPECT_EQ(lend(longer), 65);
  EXPECT_EQ(lend({}), -EAGAIN);
  Bytes came(65);
  EXPECT_EQ(receive(*other, came), 65);
  EXPECT_EQ(came, longer);
  expect_loan();
}

TEST_F(LoanOrder, a_header_stands_behind_all_that_the_ring_has_no_more_room_for) {
  std::size_t sent = 0;
  for (int result = 0; (result = send(*one, 100)) > 0;) sent += static_cast<std::size_t>(result);
  EXPECT_EQ(lend(header), 64);
  Bytes came(sent + 1000);
  EXPECT_EQ(receive(*other, came), static_cast<int>(sent + 64));
  EXPECT_EQ(Bytes(came.begin() + sent, came.begin() + sent + 64), header);
  expect_loan();
}

TEST_F(LoanOrder, a_header_is_told_before_the_end_of_a_stream_that_lends_no_more) {
  EXPECT_EQ(lend(header), 64);
  one->shutdown();
  EXPECT_EQ(receive(*other, 1000), 64);
  EXPECT_EQ(receive(*other, 1000), 0);
}

TEST_F(LoanOrder, a_header_goes_by_the_ring_where_nothing_can_be_lent) {
  fake.most_memory = fake.registered_bytes;
  EXPECT_EQ(lend(header), static_cast<int>(kRingBytes)) << "of all, what the ring holds";
  Bytes came(kRingBytes);
  EXPECT_EQ(receive(*other, came), static_cast<int>(kRingBytes));
  EXPECT_EQ(Bytes(came.begin(), came.begin() + 64), header);
}

}  // namespace
}  // namespace cohort::verbs::loan_order_test
