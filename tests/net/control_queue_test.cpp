// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_queue.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace cohort::control_queue_test {
namespace {

using ::testing::ElementsAre;
using Type = ControlMessage::Type;

ControlMessage message_of(Type type, GroupNumber group, std::uint64_t sequence = 0) {
  ControlMessage message;
  message.type = type;
  message.group = group;
  message.sequence = sequence;
  return message;
}

void push(ControlQueue& queue, Type type, GroupNumber group, std::uint64_t sequence = 0) {
  EXPECT_TRUE(queue.push(message_of(type, group, sequence)));
}

/// Takes the first one out as a socket does that has room for so many bytes at a time.
ControlMessage take(ControlQueue& queue, std::size_t bytes_at_a_time = sizeof(ControlMessage)) {
  std::vector<std::byte> bytes;
  while (bytes.size() < sizeof(ControlMessage)) {
    const std::span<const std::byte> unsent = queue.unsent();
    const std::size_t taken = std::min(bytes_at_a_time, unsent.size());
    bytes.insert(bytes.end(), unsent.begin(), unsent.begin() + static_cast<std::ptrdiff_t>(taken));
    queue.drop_sent(taken);
  }
  ControlMessage message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}

/// "type group" of each, in order.
std::vector<std::pair<Type, GroupNumber>> take_all(ControlQueue& queue) {
  std::vector<std::pair<Type, GroupNumber>> all;
  while (!queue.is_empty()) {
    const ControlMessage message = take(queue);
    all.emplace_back(message.type, message.group);
  }
  return all;
}

TEST(ControlQueue, a_later_question_stands_for_an_earlier_one_of_its_group) {
  ControlQueue queue;
  for (std::uint64_t turn = 1; turn <= 1000; ++turn)
    for (const GroupNumber group : {0U, 5U})
      for (const Type type : {Type::status, Type::query, Type::answer}) push(queue, type, group, turn);
  EXPECT_EQ(queue.size(), 6U);
  while (!queue.is_empty()) EXPECT_EQ(take(queue).sequence, 1000U);
}

TEST(ControlQueue, news_of_one_rank_does_not_stand_for_that_of_another) {
  ControlQueue queue;
  for (int turn = 0; turn < 100; ++turn)
    for (const Rank about : {1U, 2U}) {
      ControlMessage message = message_of(Type::lost, 0);
      message.culprit = about;
      EXPECT_TRUE(queue.push(message));
    }
  EXPECT_EQ(queue.size(), 2U);
}

TEST(ControlQueue, what_has_begun_to_go_out_goes_out_whole_and_first) {
  ControlQueue queue;
  const ControlMessage first = message_of(Type::query, 0, 1);
  EXPECT_TRUE(queue.push(first, 100));
  EXPECT_EQ(queue.unsent().size(), sizeof first - 100);
  push(queue, Type::query, 0, 2);
  push(queue, Type::query, 0, 3);
  EXPECT_EQ(queue.size(), 2U) << "the second one was dropped for the third one, the first one was not";
  queue.drop_sent(queue.unsent().size());
  EXPECT_EQ(take(queue, 7).sequence, 3U);
  EXPECT_TRUE(queue.is_empty());
}

TEST(ControlQueue, a_question_stays_behind_the_invitation_to_its_group) {
  ControlQueue queue;
  push(queue, Type::query, 3, 1);
  push(queue, Type::goodbye, 3);
  push(queue, Type::invite, 4);
  push(queue, Type::query, 4, 1);
  push(queue, Type::query, 4, 2);
  EXPECT_THAT(take_all(queue), ElementsAre(std::pair(Type::query, 3U), std::pair(Type::goodbye, 3U),
                                           std::pair(Type::invite, 4U), std::pair(Type::query, 4U)));
}

TEST(ControlQueue, last_words_are_all_told) {
  ControlQueue queue;
  for (GroupNumber group = 1; group <= kMostGroups; ++group) {
    push(queue, Type::revoke, group);
    push(queue, Type::goodbye, group);
  }
  EXPECT_EQ(queue.size(), 2 * kMostGroups);
}

TEST(ControlQueue, of_groups_given_up_before_the_peer_has_heard_of_them_the_last_ones_are_told) {
  ControlQueue queue;
  push(queue, Type::goodbye, 1);  // of one that it knows
  push(queue, Type::invite, 2);   // to one that is not over
  GroupNumber group = 2;
  for (int attempts = 0; attempts < 1000; ++attempts) {
    push(queue, Type::invite, ++group);
    push(queue, Type::revoke, group);
    push(queue, Type::goodbye, group);
  }
  EXPECT_EQ(queue.size(), 2 + 3 * ControlQueue::kMostGivenUp);
  EXPECT_EQ(take(queue).group, 1U);
  EXPECT_EQ(take(queue).group, 2U);
  EXPECT_EQ(take(queue).group, group + 1 - ControlQueue::kMostGivenUp);
  queue.clear();
}

/// Its invitation waits for what becomes of that group.
TEST(ControlQueue, of_groups_that_accept_the_peers_invitation_all_is_told) {
  constexpr GroupNumber kGroups = 100;
  ControlQueue queue;
  for (GroupNumber group = 1; group <= kGroups; ++group) {
    push(queue, Type::invite, group);
    push(queue, Type::accept, group, 1);
    push(queue, Type::accept, group, 2);  // instead
    push(queue, Type::revoke, group);
    push(queue, Type::goodbye, group);
  }
  EXPECT_EQ(queue.size(), 4 * kGroups);
}

TEST(ControlQueue, whose_invitation_is_on_its_way_is_given_up_in_words_too) {
  ControlQueue queue;
  EXPECT_TRUE(queue.push(message_of(Type::invite, 1), 1));
  push(queue, Type::revoke, 1);
  push(queue, Type::goodbye, 1);
  for (GroupNumber group = 2; group < 100; ++group) {
    push(queue, Type::invite, group);
    push(queue, Type::revoke, group);
    push(queue, Type::goodbye, group);
  }
  queue.drop_sent(queue.unsent().size());
  EXPECT_EQ(take(queue).type, Type::revoke);
  EXPECT_EQ(take(queue).group, 1U);
  EXPECT_EQ(queue.size(), 3 * ControlQueue::kMostGivenUp);
}

TEST(ControlQueue, groups_that_were_used_and_closed_are_all_told) {
  constexpr GroupNumber kGroups = 1000;
  ControlQueue queue;
  for (GroupNumber group = 1; group <= kGroups; ++group) {
    push(queue, Type::invite, group);
    push(queue, Type::goodbye, group);
  }
  EXPECT_EQ(queue.size(), 2 * kGroups);
}

TEST(ControlQueue, groups_that_were_used_and_failed_are_all_told) {
  constexpr GroupNumber kGroups = 100;
  ControlQueue queue;
  for (GroupNumber group = 1; group <= kGroups; ++group) {
    push(queue, Type::invite, group);
    push(queue, Type::revoke, group);
    push(queue, Type::goodbye, group, 1);  // after its first call
  }
  EXPECT_EQ(queue.size(), 3 * kGroups);
}

TEST(ControlQueue, that_is_full_takes_no_more_and_says_so) {
  ControlQueue queue;
  for (std::size_t i = 0; i < ControlQueue::kMost; ++i)
    ASSERT_TRUE(queue.push(message_of(Type::goodbye, static_cast<GroupNumber>(i))));
  EXPECT_TRUE(queue.is_full());
  EXPECT_FALSE(queue.push(message_of(Type::goodbye, 1)));
  take(queue);
  EXPECT_TRUE(queue.push(message_of(Type::goodbye, 1)));
}

}  // namespace
}  // namespace cohort::control_queue_test
