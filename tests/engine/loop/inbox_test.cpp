// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/inbox.h>

#include <cohort/engine/io/driver.h>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cohort::inbox_test {
namespace {

/// Counts wake-ups; everything else is never asked of it.
class CountingDriver final : public Driver {
 public:
  void submit(IoOperation&) noexcept override { ADD_FAILURE(); }
  void cancel(IoOperation&) noexcept override { ADD_FAILURE(); }
  bool poll() noexcept override { return false; }
  bool has_news() const noexcept override { return false; }
  void sleep(TimePoint, TimePoint) noexcept override { ADD_FAILURE(); }
  void wake() noexcept override { ++wakes; }
  bool has_futex() const noexcept override { return false; }
  std::string description() const override { return "counting"; }
  std::atomic<int> wakes{0};
};

struct Item final : InboxItem {
  explicit Item(std::function<void()> action = [] {}) : on_delivery(std::move(action)) {}
  void deliver() noexcept override {
    ++delivered;
    on_delivery();
  }
  void discard() noexcept override { ++discarded; }
  std::function<void()> on_delivery;
  int delivered = 0;
  int discarded = 0;
};

TEST(Inbox, delivers_in_the_order_of_each_sender) {
  CountingDriver driver;
  Inbox inbox(driver);
  std::vector<int> order;
  std::vector<std::unique_ptr<Item>> items;
  for (int i = 0; i < 100; ++i) items.push_back(std::make_unique<Item>([&order, i] { order.push_back(i); }));
  for (const auto& item : items) inbox.post(*item);
  EXPECT_TRUE(order.empty()) << "nothing is delivered by the sender";
  EXPECT_TRUE(inbox.drain());
  EXPECT_FALSE(inbox.drain());
  std::vector<int> expected(100);
  for (int i = 0; i < 100; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(order, expected);
}

TEST(Inbox, wakes_the_loop_once_and_only_if_it_sleeps) {
  CountingDriver driver;
  Inbox inbox(driver);
  Item a;
  Item b;
  Item c;
  inbox.post(a);
  EXPECT_EQ(driver.wakes, 0) << "awake already";
  inbox.drain();
  ASSERT_TRUE(inbox.arm());
  inbox.post(b);
  inbox.post(c);
  EXPECT_EQ(driver.wakes, 1) << "one wake-up is enough";
  inbox.disarm();
  EXPECT_TRUE(inbox.drain());
  EXPECT_EQ(b.delivered + c.delivered, 2);
}

TEST(Inbox, does_not_let_the_loop_sleep_on_what_came_after_the_last_look) {
  CountingDriver driver;
  Inbox inbox(driver);
  Item item;
  EXPECT_FALSE(inbox.drain());
  inbox.post(item);
  EXPECT_FALSE(inbox.arm());
  EXPECT_TRUE(inbox.drain());
  EXPECT_TRUE(inbox.arm());
}

TEST(Inbox, item_that_posts_another_does_not_keep_the_loop) {
  CountingDriver driver;
  Inbox inbox(driver);
  Item item;
  item.on_delivery = [&] { inbox.post(item); };
  inbox.post(item);
  EXPECT_TRUE(inbox.drain());
  EXPECT_EQ(item.delivered, 1);
  EXPECT_TRUE(inbox.drain());
  EXPECT_EQ(item.delivered, 2);
  item.on_delivery = [] {};
  EXPECT_TRUE(inbox.drain());
  EXPECT_FALSE(inbox.drain());
}

TEST(Inbox, discards_what_was_not_delivered_when_it_ends) {
  CountingDriver driver;
  Item item;
  {
    Inbox inbox(driver);
    inbox.post(item);
  }
  EXPECT_EQ(item.delivered, 0);
  EXPECT_EQ(item.discarded, 1);
}

/// Senders against a receiver that sleeps whenever arm() lets it: every wake-up that is lost is a hang, so
/// the receiver waits for a wake-up only as long as the senders have not finished.
TEST(Inbox, loses_nothing_between_many_senders_and_a_receiver_that_sleeps) {
  constexpr int kSenders = 4;
  constexpr int kItems = 20'000;
  CountingDriver driver;
  Inbox inbox(driver);
  std::vector<int> last(kSenders, -1);
  int received = 0;
  std::vector<std::vector<std::unique_ptr<Item>>> items(kSenders);
  for (std::size_t sender = 0; sender < kSenders; ++sender)
    for (int i = 0; i < kItems; ++i)
      items[sender].push_back(std::make_unique<Item>([&last, &received, sender, i] {
        EXPECT_EQ(last[sender] + 1, i);
        last[sender] = i;
        ++received;
      }));
  std::vector<std::thread> senders;
  for (const auto& mine : items)
    senders.emplace_back([&inbox, &mine] {
      for (const auto& item : mine) inbox.post(*item);
    });
  int woken = 0;
  while (received < kSenders * kItems) {
    if (inbox.drain() || !inbox.arm()) continue;
    while (driver.wakes.load() == woken) std::this_thread::yield();
    woken = driver.wakes.load();
    inbox.disarm();
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_FALSE(inbox.drain());
}

}  // namespace
}  // namespace cohort::inbox_test
