// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/resolved_options.h>
#include <cohort/collectives/machines/sim/simulate.h>
#include <cohort/engine/error.h>
#include <cohort/tests/support/schedules.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <tuple>

namespace cohort::sim::simulate_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr double kLatencyUs = 2;
constexpr double kBytesPerUs = 50'000;
constexpr double kRoundingUs = 0.001;

/// One rank on each host, full bisection, and no time for local steps or for arrival within a host.
Topology flat() {
  Topology topology;
  topology.inside.latency_ns = 0;
  topology.network = {.latency_ns = 2000, .gigabytes_per_second = 50};
  return topology;
}

/// All ranks on one host, over links, whose cores have caches of so many bytes.
Topology links_of_one_host(std::size_t cache_bytes) {
  Topology topology = flat();
  topology.ranks_per_host = 8;
  topology.has_shared_memory = false;
  topology.cache_bytes = cache_bytes;
  return topology;
}

const AnyAlgorithm& all_reduce(std::string_view name) { return test::library<AllReduce>(name); }

Prediction ring(const Topology& topology, Rank ranks, std::size_t bytes, std::uint64_t seed = 0) {
  return simulate(all_reduce("ring"), topology, {.ranks = ranks, .bytes = bytes, .seed = seed});
}

/// Rank 0 and rank 1 send to rank 2 and rank 3.
Task<> two_flows(Exec& x, Broadcast op) {
  if (x.rank() < 2)
    co_await x.link(x.rank() + 2).send(op.data);
  else
    co_await x.link(x.rank() - 2).recv(op.data);
}

double two_flows_us(const Topology& topology, std::size_t bytes) {
  const Algorithm<Broadcast> algorithm = {.name = "two flows", .schedule = two_flows};
  return simulate(algorithm, topology, {.ranks = 4, .bytes = bytes}).microseconds;
}

/// Each rank but the first of its host hears of the one before it there.
Task<> chain_of_host(Exec& x, Broadcast op) {
  const std::span<const Rank> host = x.ranks_of_host();
  if (x.rank() != host.front()) co_await x.link(x.rank() - 1).recv(op.data);
  if (x.rank() != host.back()) co_await x.link(x.rank() + 1).send(op.data);
}

TEST(SimulateTest, schedules_are_told_who_shares_a_host) {
  const Algorithm<Broadcast> algorithm = {.name = "chain", .schedule = chain_of_host};
  Topology topology;
  topology.inside = {.latency_ns = 1000, .gigabytes_per_second = 1e9};
  for (const Rank per_host : {1U, 2U, 3U, 4U}) {
    topology.ranks_per_host = per_host;
    const double chain_us = simulate(algorithm, topology, {.ranks = 7, .bytes = 8}).microseconds;
    const double arrival_us = per_host == 1 ? 0 : 1;
    EXPECT_NEAR(chain_us, arrival_us + per_host - 1.0, kRoundingUs) << per_host << " ranks on a host";
  }
}

TEST(SimulateTest, hosts_may_have_different_numbers_of_ranks) {
  const Algorithm<Broadcast> algorithm = {.name = "chain", .schedule = chain_of_host};
  Topology topology;
  topology.inside = {.latency_ns = 1000, .gigabytes_per_second = 1e9};
  topology.ranks_of_hosts = {1, 5};
  topology.ranks_per_host = 3;
  EXPECT_EQ(host_bounds(topology, 11), (std::vector<Rank>{0, 1, 6, 9, 11}));
  EXPECT_EQ(most_ranks_of_a_host(topology, 11), 5U);
  EXPECT_FALSE(has_one_memory(topology, 2));
  const double chain_us = simulate(algorithm, topology, {.ranks = 11, .bytes = 8}).microseconds;
  EXPECT_NEAR(chain_us, 1 + 4, kRoundingUs) << "the largest host meets, and passes it on";
}

TEST(SimulateTest, hosts_may_have_networks_of_different_bandwidth) {
  Topology topology = flat();
  topology.gigabytes_per_second_of_hosts = {kBytesPerUs / 1000, kBytesPerUs / 4000};
  const double bytes = 1'000'000;
  EXPECT_NEAR(two_flows_us(topology, 1'000'000), kLatencyUs + 4 * bytes / kBytesPerUs, kRoundingUs);
  EXPECT_EQ(hosts_of(topology, 2).elements_before(1, 1000), 800U);
  topology.is_bandwidth_known = false;
  EXPECT_TRUE(hosts_of(topology, 2).are_bandwidths_equal());
}

TEST(SimulateTest, shares_by_bandwidth_take_less_time_where_networks_differ) {
  Topology topology;
  topology.ranks_per_host = 4;
  topology.rails = 2;
  topology.network.message_ns = 250;
  for (const Rank hosts : {3U, 4U, 8U}) {
    topology.gigabytes_per_second_of_hosts = {12.5};  // others have 50
    const sim::Setup setup{.ranks = 4 * hosts, .bytes = std::size_t{16} << 20};
    topology.is_bandwidth_known = true;
    const double by_bandwidth = simulate(all_reduce("ahc"), topology, setup).microseconds;
    topology.is_bandwidth_known = false;
    EXPECT_LT(by_bandwidth, simulate(all_reduce("ahc"), topology, setup).microseconds) << hosts << " hosts";
  }
}

TEST(SimulateTest, a_host_of_more_ranks_shares_its_cores_and_its_nics) {
  Topology topology = flat();
  topology.ranks_of_hosts = {2};  // ranks 0 and 1; the others have a host each
  topology.has_shared_memory = false;
  const double apart = two_flows_us(topology, 10'000'000);
  topology.rails = 1;
  EXPECT_NEAR(two_flows_us(topology, 10'000'000), 2 * apart - kLatencyUs, kRoundingUs);
  topology.rails = 0;
  topology.network.message_ns = 1000;
  EXPECT_NEAR(two_flows_us(topology, 4), kLatencyUs + 2, 2 * kRoundingUs);
  topology.cores_per_host = 1;  // that of ranks 0 and 1 sends one message after the other
  EXPECT_NEAR(two_flows_us(topology, 4), kLatencyUs + 3, 2 * kRoundingUs);
}

TEST(SimulateTest, a_header_travels_with_each_message) {
  Topology topology = flat();
  const double without = two_flows_us(topology, 1000);
  topology.network.header_bytes = 1000;
  EXPECT_NEAR(two_flows_us(topology, 1000), without + 1000 / kBytesPerUs, kRoundingUs);
}

TEST(SimulateTest, predicted_messages_are_those_that_are_sent) {
  const Topology topology = links_of_one_host(1 << 18);
  const sim::Setup setup{.ranks = 8, .bytes = 1 << 20};
  for (const std::string_view name : {"ring", "mesh", "one_shot", "recursive_doubling"}) {
    const Prediction prediction = simulate(all_reduce(name), topology, setup);
    EXPECT_NEAR(predicted_messages(all_reduce(name), topology, setup),
                static_cast<double>(prediction.messages), 0.5)
        << name;
  }
}

TEST(SimulateTest, progress_is_told_now_and_then) {
  std::vector<std::uint64_t> told;
  const Progress progress = [&](std::uint64_t messages) { told.push_back(messages); };
  const Watchers watchers{.progress = &progress};
  const Prediction prediction =
      simulate(all_reduce("ring"), flat(), {.ranks = 256, .bytes = 1 << 20}, watchers);
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_LE(told.back(), prediction.messages);
}

TEST(SimulateTest, ring_takes_its_closed_form) {
  for (const Rank ranks : {2U, 3U, 8U, 64U}) {
    const std::size_t bytes = std::size_t{4000} * ranks;
    const double rounds = 2.0 * (ranks - 1);
    EXPECT_NEAR(ring(flat(), ranks, bytes).microseconds, rounds * (kLatencyUs + 4000 / kBytesPerUs),
                kRoundingUs)
        << ranks;
  }
}

TEST(SimulateTest, recursive_doubling_takes_its_closed_form) {
  for (const Rank ranks : {2U, 8U, 256U}) {
    const double rounds = std::bit_width(ranks) - 1;
    const Prediction prediction =
        simulate(all_reduce("recursive_doubling"), flat(), {.ranks = ranks, .bytes = 1'000'000});
    EXPECT_NEAR(prediction.microseconds, rounds * (kLatencyUs + 1e6 / kBytesPerUs), kRoundingUs) << ranks;
    EXPECT_EQ(prediction.messages, ranks * (std::bit_width(ranks) - 1));
  }
}

TEST(SimulateTest, every_algorithm_ends) {
  Topology one_host = flat();
  one_host.ranks_per_host = 9;
  one_host.hosts_per_switch = 1;
  one_host.inside.latency_ns = 1000;
  for (const Operator op : all_operators()) {
    for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op)) {
      if (algorithm.scope() == Scope::self) continue;
      for (const Rank ranks : {2U, 5U, 8U}) {
        const std::size_t bytes = algorithm.announces() == Announces::data ? 10'000 : 100'000;
        const Prediction prediction = simulate(algorithm, one_host, {.ranks = ranks, .bytes = bytes});
        EXPECT_TRUE(prediction.did_end) << algorithm.name() << " of " << ranks;
        EXPECT_GT(prediction.microseconds, 0) << algorithm.name() << " of " << ranks;
      }
    }
  }
}

TEST(SimulateTest, every_algorithm_ends_between_hosts_whose_buffers_cut_messages) {
  Topology hosts_of_two = flat();
  hosts_of_two.ranks_per_host = 2;
  const Hosts hosts(std::vector<Rank>{0, 0, 1, 1, 2, 2});
  for (const Operator op : all_operators()) {
    for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op)) {
      if (algorithm.scope() != Scope::network || !algorithm.fits(hosts)) continue;
      const sim::Setup setup{.ranks = 6, .bytes = 100'000, .buffer_bytes = 16 << 10};
      const Prediction prediction = simulate(algorithm, hosts_of_two, setup);
      EXPECT_TRUE(prediction.did_end) << to_string(op) << " " << algorithm.name();
    }
  }
}

TEST(SimulateTest, two_flows_over_one_nic_take_twice_as_long) {
  Topology topology = flat();
  topology.ranks_per_host = 2;
  EXPECT_NEAR(two_flows_us(topology, 1'000'000), kLatencyUs + 1e6 / kBytesPerUs, kRoundingUs);
  topology.rails = 1;
  EXPECT_NEAR(two_flows_us(topology, 1'000'000), kLatencyUs + 2e6 / kBytesPerUs, kRoundingUs);
}

TEST(SimulateTest, ranks_that_send_to_all_in_turn_do_not_wait_for_each_other) {
  const Prediction prediction = simulate(all_reduce("one_shot"), flat(), {.ranks = 4, .bytes = 1'000'000});
  EXPECT_NEAR(prediction.microseconds, kLatencyUs + 3 * 1e6 / kBytesPerUs, kRoundingUs);
}

TEST(SimulateTest, oversubscribed_uplink_divides_the_bandwidth) {
  Topology topology = flat();
  topology.hosts_per_switch = 2;
  EXPECT_NEAR(two_flows_us(topology, 1'000'000), kLatencyUs + 1e6 / kBytesPerUs, kRoundingUs);
  topology.oversubscription = 4;  // the uplink of two NICs has half the bandwidth of one
  EXPECT_NEAR(two_flows_us(topology, 1'000'000), kLatencyUs + 4e6 / kBytesPerUs, kRoundingUs);
}

TEST(SimulateTest, local_steps_and_slow_ranks_take_their_time) {
  Topology topology = flat();
  topology.copy_gigabytes_per_second = 10;
  const double alone = ring(topology, 4, 4'000'000).microseconds;
  EXPECT_NEAR(alone - ring(flat(), 4, 4'000'000).microseconds, 400, kRoundingUs);
  topology.faults.slow_ranks = {{2, 3}};
  EXPECT_NEAR(ring(topology, 4, 4'000'000).microseconds - alone, 800, kRoundingUs);
}

/// 7 ranks, slices of 16 bytes: the last one has 4 of a vector of 100, and is filled up as it is packed.
TEST(SimulateTest, slices_that_are_packed_take_the_time_of_all_their_bytes) {
  constexpr double kPackedAndUnpacked = 7 * 16 + 100;
  constexpr double kBlocksAndOwn = 8 * 16;
  Topology topology = flat();
  topology.copy_gigabytes_per_second = 0.001;  // a byte takes 1 us
  for (const std::string_view name : {"nb", "nhr"}) {
    SCOPED_TRACE(name);
    const auto copying_us = [&](const AnyAlgorithm& algorithm, std::size_t bytes) {
      const sim::Setup setup{.ranks = 7, .bytes = bytes};
      return simulate(algorithm, topology, setup).microseconds -
             simulate(algorithm, flat(), setup).microseconds;
    };
    EXPECT_NEAR(copying_us(all_reduce(name), 100), kPackedAndUnpacked, kRoundingUs);
    EXPECT_NEAR(copying_us(test::library<Broadcast>(name), 100), kPackedAndUnpacked, kRoundingUs);
    EXPECT_NEAR(copying_us(test::library<Reduce>(name), 100), kPackedAndUnpacked, kRoundingUs);
    EXPECT_NEAR(copying_us(test::library<AllGather>(name), 112), kBlocksAndOwn, kRoundingUs);
    EXPECT_NEAR(copying_us(test::library<ReduceScatter>(name), 112), kBlocksAndOwn, kRoundingUs);
  }
}

/// 3 hosts of 2 ranks, blocks of 16 bytes: those of all ranks are packed for both levels, and those of a
/// place and the own one once more by nhr.
TEST(SimulateTest, blocks_that_are_packed_for_levels_take_the_time_of_all_their_bytes) {
  constexpr double kOfAllAndOfPlace = (6 + 3 + 1) * 16;
  Topology quick = flat();
  quick.ranks_per_host = 2;
  Topology slow = quick;
  slow.copy_gigabytes_per_second = 0.001;  // a byte takes 1 us
  const auto copying_us = [&](const AnyAlgorithm& algorithm) {
    const sim::Setup setup{.ranks = 6, .bytes = 96};
    return simulate(algorithm, slow, setup).microseconds - simulate(algorithm, quick, setup).microseconds;
  };
  EXPECT_NEAR(copying_us(test::library<AllGather>("mesh_nhr")), kOfAllAndOfPlace, kRoundingUs);
  EXPECT_NEAR(copying_us(test::library<ReduceScatter>("mesh_nhr")), kOfAllAndOfPlace, kRoundingUs);
}

TEST(SimulateTest, processors_work_for_each_message_at_both_ends) {
  Topology topology = flat();
  topology.network.message_ns = 300;
  const double rounds = 2.0 * (8 - 1);
  EXPECT_NEAR(ring(topology, 8, 32'000).microseconds, rounds * (kLatencyUs + 0.6 + 4000 / kBytesPerUs),
              kRoundingUs);
  topology.faults.slow_ranks = {{3, 11}};  // 6 us of its own work in each round but the first and the last
  EXPECT_GT(ring(topology, 8, 32'000).microseconds, 12 * 6.0);
}

TEST(SimulateTest, processor_moves_bytes_as_they_come_where_no_nic_does) {
  Topology topology = flat();
  topology.network.core_gigabytes_per_second = 25;  // half as fast as the NIC: it sets the pace at both ends
  EXPECT_NEAR(two_flows_us(topology, 1'000'000), kLatencyUs + 2 * 1e6 / kBytesPerUs, kRoundingUs);
  topology.network.core_gigabytes_per_second = 100;
  EXPECT_NEAR(two_flows_us(topology, 1'000'000), kLatencyUs + 1e6 / kBytesPerUs, kRoundingUs);
}

TEST(SimulateTest, gap_holds_a_nic_between_messages) {
  Topology topology = flat();
  topology.ranks_per_host = 2;
  topology.rails = 1;
  topology.network.gap_ns = 700;
  EXPECT_NEAR(two_flows_us(topology, 4), kLatencyUs + 2 * 0.7, kRoundingUs);
}

TEST(SimulateTest, ranks_that_share_a_core_take_turns) {
  Topology topology = flat();
  topology.ranks_per_host = 4;
  topology.has_shared_memory = false;
  topology.inside = {.latency_ns = 0, .gigabytes_per_second = 1e6, .message_ns = 1000};
  topology.cores_per_host = 4;
  const double apart = two_flows_us(topology, 4);
  EXPECT_NEAR(apart, 2, kRoundingUs);
  topology.cores_per_host = 1;  // four halves of messages, one after another
  EXPECT_NEAR(two_flows_us(topology, 4), 4, kRoundingUs);
  topology.core_switch_ns = 500;  // from nobody to the first, and then between ranks
  EXPECT_NEAR(two_flows_us(topology, 4), 4 + 4 * 0.5, kRoundingUs);
}

TEST(SimulateTest, ranks_of_one_host_meet_and_small_data_travels_in_the_slots) {
  Topology topology = flat();
  topology.ranks_per_host = 4;
  topology.inside = {.latency_ns = 100, .gigabytes_per_second = 100};
  topology.reduce_gigabytes_per_second = 1;
  const auto slots = [&](std::size_t bytes) {
    return simulate(all_reduce("slots"), topology, {.ranks = 4, .bytes = bytes});
  };
  EXPECT_NEAR(slots(1000).microseconds, 0.1 + 4 * 1.0, kRoundingUs);
  EXPECT_EQ(slots(1000).messages, 0U);
  EXPECT_THROW((void)slots(1'000'000), Error) << "more than a slot";
  topology.has_shared_memory = false;
  EXPECT_THROW((void)slots(1000), Error);
}

TEST(SimulateTest, every_algorithm_ends_on_one_host_whose_caches_cut_messages) {
  const Topology topology = links_of_one_host(4096);
  const Hosts apart = Hosts::apart(6);
  for (const Operator op : all_operators()) {
    for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op)) {
      if (algorithm.scope() != Scope::network || !algorithm.fits(apart)) continue;
      const Prediction prediction = simulate(algorithm, topology, {.ranks = 6, .bytes = 100'000});
      EXPECT_TRUE(prediction.did_end) << to_string(op) << " " << algorithm.name();
    }
  }
}

TEST(SimulateTest, messages_beyond_the_cache_go_in_pieces_over_links_of_one_host) {
  const std::uint64_t whole = ring(links_of_one_host(0), 4, 1 << 20).messages;
  EXPECT_EQ(ring(links_of_one_host(1 << 18), 4, 1 << 20).messages, 4 * whole);
}

TEST(SimulateTest, buffers_are_as_large_as_those_of_a_communicator) {
  EXPECT_EQ(sim::Setup().buffer_bytes, buffer_bytes_of(CommunicatorOptions()));
}

TEST(SimulateTest, messages_beyond_the_cache_go_whole_from_host_to_host) {
  Topology topology = links_of_one_host(1 << 18);
  for (const Rank ranks_per_host : {1U, 2U, 3U}) {
    topology.ranks_per_host = ranks_per_host;
    EXPECT_EQ(ring(topology, 4, 1 << 20).messages, 4 * 6U) << ranks_per_host << " ranks on a host";
  }
}

TEST(SimulateTest, cancelled_operation_and_who_waits_are_named) {
  Topology topology = flat();
  topology.faults.cancelled_operations = {{1, 2}};
  const Prediction prediction = ring(topology, 4, 4000);
  EXPECT_FALSE(prediction.did_end);
  EXPECT_THAT(prediction.complaints, Contains(HasSubstr("rank 1 cancelled its operation at")));
  EXPECT_THAT(prediction.complaints, Contains(HasSubstr("waits for bytes from rank 1, which cancelled")));
}

TEST(SimulateTest, degraded_link_slows_the_ring_down) {
  Topology topology = flat();
  topology.faults.degraded_links = {{1, 2, 0.25, 1}};
  // Rank 1 sends its six blocks one after another; what comes from rank 0 is always there in time.
  EXPECT_NEAR(ring(topology, 4, 4'000'000).microseconds, 6 * 4 * 1e6 / kBytesPerUs + kLatencyUs, kRoundingUs);
}

TEST(SimulateTest, dead_rank_and_who_waits_are_named) {
  Topology topology = flat();
  topology.faults.dead_ranks = {{2, 3}};
  const Prediction prediction = ring(topology, 4, 4000);
  EXPECT_FALSE(prediction.did_end);
  EXPECT_THAT(prediction.complaints, Contains(HasSubstr("rank 2 died at")));
  EXPECT_THAT(prediction.complaints,
              Contains(HasSubstr("rank 3 (stream 2) waits for bytes from rank 2, which died")));
}

TEST(SimulateTest, lost_link_and_who_waits_are_named) {
  Topology topology = flat();
  topology.faults.lost_links = {{0, 1, 2}};
  const Prediction prediction = ring(topology, 4, 4000);
  EXPECT_FALSE(prediction.did_end);
  EXPECT_THAT(prediction.complaints, Contains(HasSubstr("the link from rank 0 to rank 1 was lost")));
  EXPECT_THAT(prediction.complaints,
              Contains(HasSubstr("rank 1 (stream 2) waits for bytes from rank 0 since")));
}

TEST(SimulateTest, a_link_goes_down_at_its_moment) {
  Topology topology = flat();
  topology.faults.lost_links = {{.from = 0, .to = 1, .at_ns = 5000}};
  const Prediction prediction = ring(topology, 4, 4000);
  EXPECT_FALSE(prediction.did_end);
  EXPECT_THAT(prediction.complaints, Contains(HasSubstr("the link from rank 0 to rank 1 was lost at 6.")));
  topology.faults.lost_links[0].at_ns = 1e6;
  EXPECT_TRUE(ring(topology, 4, 4000).did_end) << "over before";
}

TEST(SimulateTest, a_late_rank_makes_the_others_wait_for_it) {
  Topology topology = flat();
  const double in_time = ring(topology, 4, 4000).microseconds;
  topology.faults.late_ranks = {{.rank = 2, .by_ns = 50'000}};
  const double late = ring(topology, 4, 4000).microseconds;
  EXPECT_GT(late, 50 + in_time / 2);
  EXPECT_LE(late, 50 + in_time + kRoundingUs);
}

TEST(SimulateTest, same_seed_gives_the_same_trace) {
  const auto run = [](std::uint64_t seed) {
    std::vector<std::tuple<Time, Rank, Rank, int, std::size_t>> events;
    const Trace trace = [&](const TraceEvent& event) {
      events.emplace_back(event.at, event.rank, event.peer, static_cast<int>(event.kind), event.bytes);
    };
    (void)simulate(all_reduce("mesh"), flat(), {.ranks = 8, .bytes = 8000, .seed = seed}, {.trace = &trace});
    return events;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(SimulateTest, hosts_without_ranks_are_refused_before_they_are_counted) {
  Topology topology;
  topology.ranks_per_host = 0;
  EXPECT_THROW((void)host_bounds(topology, 2), Error);
  EXPECT_THROW((void)most_ranks_of_a_host(topology, 2), Error);
  EXPECT_THROW((void)hosts_of(topology, 2), Error);
  topology.ranks_per_host = 1;
  topology.ranks_of_hosts = {0};
  EXPECT_THROW((void)host_bounds(topology, 2), Error);
}

TEST(SimulateTest, topology_that_makes_no_sense_is_refused) {
  Topology topology = flat();
  topology.faults.dead_ranks = {{9, 1}};
  EXPECT_THROW((void)ring(topology, 4, 4000), Error);
  topology = flat();
  topology.ranks_of_hosts = {2, 0};
  EXPECT_THROW((void)ring(topology, 4, 4000), Error);
  topology = flat();
  topology.faults.late_ranks = {{.rank = 1, .by_ns = -1}};
  EXPECT_THROW((void)ring(topology, 4, 4000), Error);
  topology = flat();
  topology.network.gigabytes_per_second = 0;
  EXPECT_THROW((void)ring(topology, 4, 4000), Error);
  EXPECT_THROW((void)ring(flat(), 1, 4000), Error);
}

}  // namespace
}  // namespace cohort::sim::simulate_test
