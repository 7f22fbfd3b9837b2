// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/poll_list.h>

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace cohort::poll_list_test {
namespace {

class Item : public ListHook {
 public:
  Item(char name, std::string& order) : name_(name), order_(order) {}
  ~Item() { unlink(); }

  bool poll() noexcept {
    order_ += name_;
    if (also_unlinks != nullptr) also_unlinks->unlink();
    return finds;
  }

  bool finds = true;
  Item* also_unlinks = nullptr;

 private:
  const char name_;
  std::string& order_;
};

class PollListTest : public ::testing::Test {
 protected:
  PollListTest() {
    for (Item* const item : {&a_, &b_, &c_}) list_.push_back(*item);
  }

  std::string order_;
  Item a_{'a', order_};
  Item b_{'b', order_};
  Item c_{'c', order_};
  PollList<Item> list_;
};

TEST_F(PollListTest, begins_with_those_that_the_last_turn_left_out) {
  const auto at_once = [] { return true; };
  for (int turn = 0; turn < 4; ++turn) EXPECT_TRUE(list_.poll(at_once));
  EXPECT_EQ(order_, "abca");
}

TEST_F(PollListTest, goes_on_past_those_that_find_nothing) {
  const auto at_once = [] { return true; };
  a_.finds = b_.finds = false;
  EXPECT_TRUE(list_.poll(at_once));
  c_.finds = false;
  EXPECT_FALSE(list_.poll(at_once));
  EXPECT_EQ(order_, "abcabc");
}

TEST_F(PollListTest, asks_only_where_something_was_found_and_somebody_is_left) {
  int questions = 0;
  const auto never = [&] { return ++questions, false; };
  b_.finds = false;
  EXPECT_TRUE(list_.poll(never));
  EXPECT_EQ(questions, 1);
  EXPECT_EQ(order_, "abc");
}

TEST_F(PollListTest, passes_over_what_another_has_unlinked) {
  const auto at_once = [] { return true; };
  a_.also_unlinks = &b_;
  EXPECT_TRUE(list_.poll(at_once));
  EXPECT_TRUE(list_.poll(at_once));
  EXPECT_TRUE(list_.poll(at_once));
  EXPECT_EQ(order_, "aca");
}

TEST_F(PollListTest, of_more_than_it_polls_at_once_takes_the_others_the_next_time) {
  const auto never = [] { return false; };
  std::deque<Item> many;
  for (std::size_t i = 3; i < PollList<Item>::kMost; ++i) list_.push_back(many.emplace_back('.', order_));
  for (const char name : {'x', 'y'}) list_.push_back(many.emplace_back(name, order_));
  EXPECT_TRUE(list_.poll(never));
  EXPECT_EQ(order_.substr(0, 3), "abc");
  EXPECT_EQ(order_.size(), PollList<Item>::kMost);
  order_.clear();
  EXPECT_TRUE(list_.poll(never));
  EXPECT_EQ(order_.substr(0, 5), "xyabc");
}

}  // namespace
}  // namespace cohort::poll_list_test
