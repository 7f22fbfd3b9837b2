// SPDX-License-Identifier: Apache-2.0
// The rules of a Dissemination for every number of ranks, followed slice by slice without any schedule.
#include <cohort/collectives/schedules/links/dissemination.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cohort::dissemination_test {
namespace {

using Order = Dissemination::Order;
using Runs = Dissemination::Runs;

constexpr Rank kMost = 257;
constexpr Order kOrders[] = {Order::nearest_first, Order::farthest_first};
constexpr Rank kNobody = ~Rank{0};

std::vector<Rank> places_of(const Runs& runs) {
  std::vector<Rank> places;
  for (const Dissemination::Run& run : {runs.first, runs.second})
    for (Rank i = 0; i < run.count; ++i) places.push_back(run.begin + i);
  return places;
}

/// Whose slice each place of one rank holds, by way; kNobody where there is none.
using Places = std::vector<Rank>;

Places own_slice_only(Rank ranks) {
  Places places(ranks, kNobody);
  places.front() = 0;
  return places;
}

std::string label(Order order, Rank ranks) {
  return fmt::format("{} first, {} ranks", order == Order::nearest_first ? "nearest" : "farthest", ranks);
}

TEST(Dissemination, brings_every_slice_once_to_its_place_in_the_fewest_rounds) {
  for (const Order order : kOrders) {
    for (Rank ranks = 1; ranks <= kMost; ++ranks) {
      SCOPED_TRACE(label(order, ranks));
      const Dissemination rule(order, ranks);
      EXPECT_EQ(rule.round_count(), static_cast<Rank>(std::bit_width(ranks - 1)));
      Places places = own_slice_only(ranks);  // of each rank: all do the same
      for (const Dissemination::Round& round : rule.rounds()) {
        const std::vector<Rank> out = places_of(rule.sent(round));
        const std::vector<Rank> in = places_of(rule.received(round));
        ASSERT_EQ(out.size(), in.size());
        for (std::size_t i = 0; i < in.size(); ++i) {
          EXPECT_EQ(places[in[i]], kNobody) << "place " << in[i];
          EXPECT_EQ(in[i], round.held + i) << "what comes fills one run";
          ASSERT_NE(places[out[i]], kNobody);
          places[in[i]] = places[out[i]] + round.distance;
        }
      }
      for (Rank place = 0; place < ranks; ++place) EXPECT_EQ(places[place], rule.way_of(place)) << place;
      for (Rank place = 1; place < ranks; ++place)
        EXPECT_EQ(places[place], rule.way_after(places[place - 1])) << place;
      std::sort(places.begin(), places.end());
      for (Rank way = 0; way < ranks; ++way) EXPECT_EQ(places[way], way);
    }
  }
}

TEST(Dissemination, sends_its_largest_message_to_the_neighbour_if_the_farthest_come_first) {
  for (Rank ranks = 3; ranks <= kMost; ++ranks) {
    const Dissemination rule(Order::farthest_first, ranks);
    Rank last = 0;
    for (const Dissemination::Round& round : rule.rounds()) {
      EXPECT_GE(rule.sent(round).slices(), last) << label(Order::farthest_first, ranks);
      last = rule.sent(round).slices();
    }
    EXPECT_EQ(rule.rounds().back().distance, 1U);
    EXPECT_EQ(last, ranks / 2);
  }
}

/// By rank: its own slice, and what comes from ranks farther from the root.
TEST(Dissemination, gathers_every_slice_at_the_root_once_and_in_its_place) {
  for (const Order order : kOrders) {
    for (Rank ranks = 1; ranks <= kMost; ++ranks) {
      SCOPED_TRACE(label(order, ranks));
      const Dissemination rule(order, ranks);
      std::vector<Places> has(ranks, own_slice_only(ranks));  // by way to the root
      for (const Dissemination::Round& round : rule.rounds()) {
        for (Rank way = 0; way < ranks; ++way) {
          if (rule.has_left(round, way) || (way & round.distance) == 0) continue;
          const std::vector<Rank> out = places_of(rule.sent(round, way));
          const std::vector<Rank> in = places_of(rule.received(round, way));
          ASSERT_EQ(out.size(), in.size());
          EXPECT_EQ(out.size(), static_cast<std::size_t>(std::count_if(
                                    has[way].begin(), has[way].end(), [](Rank of) { return of != kNobody; })))
              << "it passes on all that it has, way " << way;
          Places& to = has[way - round.distance];
          for (std::size_t i = 0; i < in.size(); ++i) {
            ASSERT_NE(has[way][out[i]], kNobody);
            EXPECT_EQ(to[in[i]], kNobody);
            to[in[i]] = has[way][out[i]] + round.distance;
          }
        }
      }
      for (Rank place = 0; place < ranks; ++place) EXPECT_EQ(has[0][place], rule.way_of(place)) << place;
    }
  }
}

}  // namespace
}  // namespace cohort::dissemination_test
