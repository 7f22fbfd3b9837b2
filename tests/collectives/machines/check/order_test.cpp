// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/order.h>

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

namespace cohort::check::order_test {
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

/// Streams of one rank: a main one that forks, whose sub streams fork, too.
class Forks {
 public:
  static constexpr Rank kMany = 5;
  static constexpr StreamId kSubs = 3;

  Forks(Pair& pair, std::mt19937_64& random, Rank rank) : pair_(pair), random_(random), main_(rank) {}

  /// The sub streams of one; of a main one kSubs, each of which has as many.
  [[nodiscard]] std::vector<StreamId> children_of(StreamId stream) const {
    std::vector<StreamId> children;
    const StreamId first = kMany + 1 + main_ * (kSubs + kSubs * kSubs);
    for (StreamId i = 0; i < kSubs; ++i)
      children.push_back(stream == main_ ? first + i : first + kSubs + (stream - first) * kSubs + i);
    return children;
  }
  /// One whose code may run: it waits for no sub stream.
  [[nodiscard]] StreamId any() {
    StreamId stream = main_;
    while (forked_.contains(stream)) stream = children_of(stream)[random_() % kSubs];
    return stream;
  }
  void fork_or_join() {
    const StreamId stream = any();
    const bool may_fork = stream == main_ || children_of(main_)[0] + kSubs > stream;
    if (may_fork && random_() % 2 == 0) return fork(stream);
    StreamId parent = main_;  // the innermost that can be joined, if there is one
    for (const StreamId child : children_of(main_))
      if (forked_.contains(child)) parent = child;
    if (forked_.contains(parent)) join(parent);
  }

 private:
  void fork(StreamId parent) {
    forked_.insert(parent);
    for (const StreamId child : children_of(parent)) {
      pair_.fast.fork(parent, child);
      pair_.slow.learn(child, pair_.slow.stamp(parent));
    }
  }
  void join(StreamId parent) {
    forked_.erase(parent);
    pair_.fast.join(parent, children_of(parent));
    for (const StreamId child : children_of(parent)) pair_.slow.learn(parent, pair_.slow.stamp(child));
  }

  Pair& pair_;
  std::mt19937_64& random_;
  const StreamId main_;
  std::set<StreamId> forked_;
};

/// A stamp on its way, which arrives when others have gone on.
struct OnItsWay {
  Stamp fast;
  SlowOrder::Set slow;
};

TEST(Order, agrees_with_sets_of_all_moments_on_random_schedules) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    Pair pair(Forks::kMany);
    std::vector<Forks> ranks;
    for (Rank rank = 0; rank < Forks::kMany; ++rank) ranks.emplace_back(pair, random, rank);
    std::vector<OnItsWay> on_their_way;
    for (int step = 0; step < 160; ++step) {
      Forks& rank = ranks[random() % Forks::kMany];
      if (random() % 3 == 0) rank.fork_or_join();
      const StreamId from = rank.any();
      const StreamId to = ranks[random() % Forks::kMany].any();
      pair.tick(from);
      on_their_way.push_back({pair.fast.stamp(from), pair.slow.stamp(from)});
      const std::size_t arrives = random() % on_their_way.size();
      if (from != to) {
        pair.fast.learn(to, on_their_way[arrives].fast);
        pair.slow.learn(to, on_their_way[arrives].slow);
      }
      if (random() % 40 == 0) {
        std::vector<StreamId> all;
        for (Forks& one : ranks) all.push_back(one.any());
        pair.fast.meet(all);
        for (const StreamId one : all)
          for (const StreamId other : all) pair.slow.learn(one, pair.slow.stamp(other));
      }
      pair.tick(to);
      for (const Moment moment : pair.moments)
        ASSERT_EQ(pair.fast.knows(to, moment), pair.slow.knows(to, moment))
            << "seed " << seed << ", step " << step << ", stream " << moment.stream << " at " << moment.at;
    }
  }
}

}  // namespace
}  // namespace cohort::check::order_test
