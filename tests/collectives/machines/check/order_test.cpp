// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/order.h>

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

namespace cohort::check {
namespace {

constexpr Rank kRanks = 3;
constexpr StreamId kSub = kRanks + 1;
constexpr StreamId kOtherSub = kRanks + 2;

TEST(Order, ranks_know_nothing_of_each_other_until_they_hear) {
  Order order(kRanks);
  const Moment early = order.tick(0);
  EXPECT_TRUE(order.knows(0, early));
  EXPECT_FALSE(order.knows(1, early));
  const Stamp stamp = order.stamp(0);
  const Moment late = order.tick(0);
  order.learn(1, stamp);
  EXPECT_TRUE(order.knows(1, early));
  EXPECT_FALSE(order.knows(1, late));
}

TEST(Order, news_travels_through_others) {
  Order order(kRanks);
  const Moment moment = order.tick(0);
  order.learn(1, order.stamp(0));
  order.tick(1);
  order.learn(2, order.stamp(1));
  EXPECT_TRUE(order.knows(2, moment));
}

TEST(Order, forked_streams_know_their_parent_and_not_each_other) {
  Order order(kRanks);
  const Moment before = order.tick(0);
  order.fork(0, kSub);
  order.fork(0, kOtherSub);
  const Moment one = order.tick(kSub);
  const Moment other = order.tick(kOtherSub);
  EXPECT_TRUE(order.knows(kSub, before));
  EXPECT_FALSE(order.knows(kSub, other));
  EXPECT_FALSE(order.knows(kOtherSub, one));
  EXPECT_FALSE(order.knows(0, one));
  order.join(0, std::array{kSub, kOtherSub});
  EXPECT_TRUE(order.knows(0, one));
  EXPECT_TRUE(order.knows(0, other));
}

TEST(Order, who_hears_of_a_join_knows_what_was_joined) {
  Order order(kRanks);
  order.fork(0, kSub);
  const Moment inside = order.tick(kSub);
  const Stamp early = order.stamp(0);
  order.join(0, std::array{kSub});
  order.learn(1, early);
  EXPECT_FALSE(order.knows(1, inside));
  order.learn(1, order.stamp(0));
  EXPECT_TRUE(order.knows(1, inside));
}

TEST(Order, a_stream_that_is_forked_again_is_new_to_those_who_knew_it_before) {
  Order order(kRanks);
  order.fork(0, kSub);
  const Moment first = order.tick(kSub);
  order.join(0, std::array{kSub});
  order.learn(1, order.stamp(0));
  order.fork(0, kSub);
  const Moment second = order.tick(kSub);
  EXPECT_TRUE(order.knows(1, first));
  EXPECT_FALSE(order.knows(1, second));
  order.learn(1, order.stamp(kSub));
  EXPECT_TRUE(order.knows(1, second));
}

TEST(Order, a_meeting_orders_everything_before_it) {
  Order order(kRanks);
  std::vector<Moment> before;
  for (Rank rank = 0; rank < kRanks; ++rank) before.push_back(order.tick(rank));
  order.meet({0, 1, 2});
  const Moment after = order.tick(0);
  for (Rank rank = 0; rank < kRanks; ++rank)
    for (const Moment moment : before) EXPECT_TRUE(order.knows(rank, moment));
  EXPECT_FALSE(order.knows(1, after));
}

/// The same by brute force: the set of all moments before.
class SlowOrder {
 public:
  using Set = std::set<std::pair<StreamId, std::uint32_t>>;
  void tick(Moment moment) { past_[moment.stream].insert({moment.stream, moment.at}); }
  [[nodiscard]] Set stamp(StreamId stream) { return past_[stream]; }
  void learn(StreamId stream, const Set& set) { past_[stream].insert(set.begin(), set.end()); }
  [[nodiscard]] bool knows(StreamId stream, Moment moment) {
    return past_[stream].contains({moment.stream, moment.at});
  }

 private:
  std::map<StreamId, Set> past_;
};

struct Pair {
  explicit Pair(Rank ranks) : fast(ranks) {}
  Moment tick(StreamId stream) {
    const Moment moment = fast.tick(stream);
    slow.tick(moment);
    moments.push_back(moment);
    return moment;
  }
  Order fast;
  SlowOrder slow;
  std::vector<Moment> moments;
};

TEST(Order, agrees_with_sets_of_all_moments_on_random_schedules) {
  constexpr Rank kMany = 5;
  constexpr StreamId kSubs = 4;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    Pair pair(kMany);
    std::vector<bool> forked(kMany);
    const auto sub = [&](Rank rank, StreamId i) { return kMany + 1 + rank * kSubs + i; };
    const auto any_stream = [&](Rank rank) {
      return forked[rank] ? sub(rank, random() % kSubs) : StreamId{rank};
    };
    for (int step = 0; step < 120; ++step) {
      const Rank rank = static_cast<Rank>(random() % kMany);
      if (random() % 4 == 0) {
        std::vector<StreamId> children;
        for (StreamId i = 0; i < kSubs; ++i) children.push_back(sub(rank, i));
        if (forked[rank]) {
          pair.fast.join(rank, children);
          for (const StreamId child : children) pair.slow.learn(rank, pair.slow.stamp(child));
        } else {
          for (const StreamId child : children) {
            pair.fast.fork(rank, child);
            pair.slow.learn(child, pair.slow.stamp(rank));
          }
        }
        forked[rank] = !forked[rank];
      }
      const StreamId from = any_stream(rank);
      const StreamId to = any_stream(static_cast<Rank>(random() % kMany));
      pair.tick(from);
      if (from != to) {
        pair.fast.learn(to, pair.fast.stamp(from));
        pair.slow.learn(to, pair.slow.stamp(from));
      }
      pair.tick(to);
      for (const Moment moment : pair.moments)
        ASSERT_EQ(pair.fast.knows(to, moment), pair.slow.knows(to, moment))
            << "seed " << seed << ", step " << step << ", stream " << moment.stream << " at " << moment.at;
    }
  }
}

}  // namespace
}  // namespace cohort::check
