// SPDX-License-Identifier: Apache-2.0
// How much of a schedule stays inside of hosts that does not ask for them.
#include <cohort/collectives/schedules/distances.h>

#include <gtest/gtest.h>

#include <vector>

namespace cohort::distances_test {
namespace {

constexpr Cost kCost{
    .rounds = 4, .bytes_moved = 1e6, .bytes_reduced = 1e5, .messages = 100, .bytes_by_all = 1e7};

Hosts hosts_of(Rank hosts, Rank ranks_per_host) {
  std::vector<Rank> host_of;
  for (Rank rank = 0; rank < hosts * ranks_per_host; ++rank) host_of.push_back(rank / ranks_per_host);
  return Hosts(host_of);
}

double messages_inside(Distances distances, const Hosts& hosts) {
  return on_hosts(kCost, distances, hosts).messages_inside / kCost.messages;
}
double bytes_inside(Distances distances, const Hosts& hosts) {
  return on_hosts(kCost, distances, hosts).bytes_by_all_inside / kCost.bytes_by_all;
}

TEST(Distances, of_pairs_and_of_neighbours_are_counted) {
  EXPECT_DOUBLE_EQ(messages_inside(Distances::pairs, hosts_of(4, 4)), 4 * 4 * 3 / (16 * 15.0));
  EXPECT_DOUBLE_EQ(bytes_inside(Distances::neighbours, hosts_of(4, 4)), 12 / 16.0);
  EXPECT_DOUBLE_EQ(messages_inside(Distances::powers, hosts_of(2, 4)), (6 + 4 + 0) / 24.0);
}

TEST(Distances, say_that_what_is_near_stays_inside) {
  const Hosts hosts = hosts_of(8, 8);
  EXPECT_EQ(messages_inside(Distances::powers_near, hosts), messages_inside(Distances::powers_far, hosts));
  EXPECT_GT(bytes_inside(Distances::powers_near, hosts), bytes_inside(Distances::powers, hosts));
  EXPECT_GT(bytes_inside(Distances::powers, hosts), bytes_inside(Distances::powers_far, hosts));
  EXPECT_GT(messages_inside(Distances::tree, hosts), messages_inside(Distances::powers, hosts));
}

TEST(Distances, of_pairs_that_exchange_stay_inside_for_whole_rounds) {
  const Cost even = on_hosts(kCost, Distances::swaps, hosts_of(4, 4));
  EXPECT_DOUBLE_EQ(even.rounds_inside, kCost.rounds / 2);  // 1 and 2 of 1, 2, 4 and 8
  EXPECT_DOUBLE_EQ(even.bytes_moved_inside, kCost.bytes_moved / 2);
  EXPECT_DOUBLE_EQ(even.messages_inside, kCost.messages / 2);
  const Cost far = on_hosts(kCost, Distances::swaps_far, hosts_of(4, 4));
  EXPECT_DOUBLE_EQ(far.rounds_inside, kCost.rounds / 2);
  EXPECT_DOUBLE_EQ(far.bytes_moved_inside, kCost.bytes_moved * 3 / 15);
  EXPECT_DOUBLE_EQ(far.bytes_by_all_inside, kCost.bytes_by_all * 3 / 15);
  EXPECT_EQ(on_hosts(kCost, Distances::swaps, hosts_of(4, 3)).rounds_inside, 0);
}

TEST(Distances, leave_ways_from_host_to_host_unless_there_is_one) {
  for (const Distances each : {Distances::pairs, Distances::neighbours, Distances::powers,
                               Distances::powers_near, Distances::powers_far, Distances::tree}) {
    EXPECT_EQ(on_hosts(kCost, each, hosts_of(2, 4)).rounds_inside, 0);
    EXPECT_EQ(on_hosts(kCost, each, hosts_of(2, 4)).bytes_moved_inside, 0);
    EXPECT_EQ(on_hosts(kCost, each, hosts_of(1, 4)).rounds_inside, kCost.rounds);
    EXPECT_EQ(messages_inside(each, hosts_of(1, 4)), 1);
    EXPECT_EQ(messages_inside(each, Hosts::apart(4)), 0);
    EXPECT_EQ(messages_inside(each, hosts_of(1, 1)), 1);
  }
}

}  // namespace
}  // namespace cohort::distances_test
