// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/selection.h>

#include <cohort/cohort.h>
#include <cohort/collectives/schedules/piece_over_links.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace cohort::selection_test {
namespace {

using test::error_from;
using test::kind_of;
using ::testing::HasSubstr;

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

Reach over_tcp(Rank ranks, double ranks_per_core) {
  LinkSpeed speed;
  speed.ranks_per_core = ranks_per_core;
  return {.hosts = Hosts::apart(ranks), .buffer_bytes = kBufferBytes, .model = CostModel(speed, ranks)};
}

/// Of a vector, or a block, of so many bytes.
Call call(Operator op, std::size_t bytes) {
  Call call(op);
  call.type = DataType::float32;
  call.count = bytes / sizeof(float);
  return call;
}

std::string_view selected(const Call& call, const Reach& reach, const Forced& forced = {}) {
  return choose_algorithm(call, reach, AlgorithmTable::library(), forced).algorithm->name();
}

TEST(Selection, takes_fewer_messages_where_ranks_share_cores_and_fewer_rounds_where_they_do_not) {
  for (const Rank ranks : {8U, 16U}) {
    EXPECT_EQ(selected(call(operator_of<Barrier>, 0), over_tcp(ranks, ranks / 2.0)), "tree");
    EXPECT_EQ(selected(call(operator_of<AllReduce>, 8), over_tcp(ranks, ranks / 2.0)), "tree");
  }
  for (const Rank ranks : {2U, 3U}) {
    EXPECT_EQ(selected(call(operator_of<Barrier>, 0), over_tcp(ranks, 1)), "one_shot");
    EXPECT_EQ(selected(call(operator_of<AllReduce>, 8), over_tcp(ranks, 1)), "one_shot");
  }
}

/// Of the bytes that all ranks send together.
void expect_least_volume(const Call& of, std::string_view chosen) {
  const AlgorithmTable& library = AlgorithmTable::library();
  const auto volume = [&](const AnyAlgorithm& one) { return one.cost(of.message_bytes(), 8).bytes_by_all; };
  for (const AnyAlgorithm& other : library.of(of.op)) {
    if (other.scope() != Scope::network || !other.has_cost()) continue;
    EXPECT_LE(volume(*library.find(of.op, chosen)), volume(other)) << chosen << ", " << other.name();
  }
}

TEST(Selection, takes_the_least_volume_for_large_messages) {
  const Call large = call(operator_of<AllReduce>, std::size_t{64} << 20);
  expect_least_volume(large, selected(large, over_tcp(8, 1)));
}

/// Ranks of `hosts` hosts that fill them one after another.
Reach on_hosts(Rank hosts, Rank ranks_per_host) {
  std::vector<Rank> host_of;
  for (Rank rank = 0; rank < hosts * ranks_per_host; ++rank) host_of.push_back(rank / ranks_per_host);
  Reach reach = over_tcp(hosts * ranks_per_host, 1);
  reach.hosts = Hosts(host_of);
  return reach;
}

TEST(Selection, takes_levels_where_ranks_share_hosts_and_messages_are_large) {
  for (const std::size_t bytes : {std::size_t{256} << 10, std::size_t{16} << 20})
    for (const Operator op : {operator_of<AllReduce>, operator_of<Broadcast>})
      EXPECT_EQ(selected(call(op, bytes), on_hosts(8, 8)), "mesh_nhr") << to_string(op) << " of " << bytes;
  for (const Operator op : {operator_of<AllGather>, operator_of<ReduceScatter>})
    EXPECT_NE(AlgorithmTable::library()
                  .find(op, selected(call(op, std::size_t{64} << 10), on_hosts(8, 8)))
                  ->levels(),
              Levels::none)
        << to_string(op);
  EXPECT_NE(selected(call(operator_of<AllReduce>, std::size_t{16} << 20), on_hosts(64, 1)), "mesh_nhr");
}

/// Where a network takes ten times as long for a byte as memory does.
TEST(Selection, takes_ahc_where_hosts_are_unequal_and_messages_are_large) {
  LinkSpeed speed;
  speed.byte_us = 1e-3;
  Reach reach = over_tcp(28, 1);
  std::vector<Rank> host_of(28, 2);
  std::fill_n(host_of.begin(), 16, 0U);
  std::fill_n(host_of.begin() + 16, 8, 1U);
  reach.hosts = Hosts(host_of);
  reach.model = CostModel(speed, reach.ranks());
  for (const Operator op : {operator_of<AllReduce>, operator_of<Broadcast>, operator_of<Reduce>})
    EXPECT_EQ(selected(call(op, std::size_t{16} << 20), reach), "ahc") << to_string(op);
  for (const Operator op : {operator_of<AllGather>, operator_of<ReduceScatter>, operator_of<AllGatherV>,
                            operator_of<ReduceScatterV>})
    EXPECT_EQ(selected(call(op, std::size_t{64} << 10), reach), "ahc") << to_string(op);
  EXPECT_NE(selected(call(operator_of<AllReduce>, 8), reach), "ahc");
}

/// Where each round goes through a network, those that stay inside of a host are nearly free.
TEST(Selection, takes_recursive_doubling_for_short_messages_where_half_of_its_rounds_stay_inside) {
  Reach reach = on_hosts(8, 8);
  reach.model = CostModel(reach.model.speed(), reach.ranks(), NetworkSpeed{.latency_us = 10});
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 8 << 10), reach), "recursive_doubling");
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 16 << 20), reach), "mesh_nhr");
}

TEST(Selection, what_runs_inside_of_hosts_costs_less) {
  const LinkSpeed speed;
  const CostModel model(speed, 8);
  const Cost across{.rounds = 2, .bytes_moved = 1e6, .messages = 10, .bytes_by_all = 8e6};
  EXPECT_LT(model.estimate_us(across.inside()), model.estimate_us(across));
  EXPECT_DOUBLE_EQ(model.estimate_us(across + across.inside()),
                   model.estimate_us(across) + model.estimate_us(across.inside()));
}

Call determined(Operator op, std::size_t bytes, DataType type, ReduceOp reduce, Determinism level) {
  Call of(op);
  of.type = type;
  of.reduce = reduce;
  of.count = bytes / size_bytes(type);
  of.announced_bytes = bytes;
  of.ask_for(level);
  return of;
}

TEST(Selection, takes_what_combines_by_rank_where_it_is_asked_for) {
  for (const std::size_t bytes : {8UL, 64UL << 10, 16UL << 20})
    for (const Operator op : all_operators()) {
      if (!op->combines) continue;
      for (const DataType type : kDataTypes) {
        const Call sum = determined(op, bytes, type, ReduceOp::sum, Determinism::D3);
        const Choice choice = choose_algorithm(sum, over_tcp(8, 1), AlgorithmTable::library(), {});
        ASSERT_NE(choice.algorithm, nullptr);
        const bool is_any = is_integer(type);
        EXPECT_GE(choice.algorithm->order(), order_for(is_any ? Determinism::D0 : Determinism::D3, type));
        const Call most = determined(op, bytes, type, ReduceOp::max, Determinism::D3);
        EXPECT_EQ(selected(most, over_tcp(8, 1)), selected(call(op, bytes), over_tcp(8, 1))) << to_string(op);
      }
    }
}

TEST(Selection, of_small_floats_takes_what_rounds_once) {
  const Reach reach = {.is_host_wide = true, .hosts = 4, .buffer_bytes = kBufferBytes};
  const std::size_t large = 1 << 20;
  const Operator scan = operator_of<Scan>;
  EXPECT_EQ(selected(determined(scan, large, DataType::float32, ReduceOp::sum, Determinism::D3), reach),
            "direct");
  EXPECT_EQ(selected(determined(scan, large, DataType::float16, ReduceOp::sum, Determinism::D1), reach),
            "direct");
  EXPECT_EQ(selected(determined(scan, large, DataType::float16, ReduceOp::sum, Determinism::D2), reach),
            "one_shot");
  EXPECT_EQ(selected(determined(scan, 8, DataType::float16, ReduceOp::sum, Determinism::D2), reach), "slots");
}

TEST(Selection, refuses_what_combines_in_another_order_with_what_does_not) {
  const Call of =
      determined(operator_of<AllReduce>, 1 << 20, DataType::float32, ReduceOp::sum, Determinism::D2);
  const auto error = error_from([&] { (void)selected(of, over_tcp(4, 1), {.by_call = "ring"}); });
  EXPECT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_THAT(error->what(),
              HasSubstr("'ring' combines in an order of its own, which does not give D2 of float32; "
                        "choose one of: one_shot, mesh"));
  EXPECT_EQ(selected(of, over_tcp(4, 1), {.by_communicator = "ring"}), selected(of, over_tcp(4, 1)));
}

TEST(Selection, copies_count_for_all_ranks_of_a_core) {
  LinkSpeed speed;
  speed.ranks_per_core = 4;
  const double without = CostModel(speed, 8).estimate_us({});
  EXPECT_DOUBLE_EQ(CostModel(speed, 8).estimate_us(Cost().copying(1e6)) - without, 4e6 * speed.copy_us);
}

TEST(Selection, where_copies_are_slow_what_copies_nothing_is_taken) {
  Reach reach = over_tcp(8, 4);
  LinkSpeed speed = reach.model.speed();
  speed.copy_us = 0.01;
  reach.model = CostModel(speed, 8);
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 16 << 20), reach), "mesh");
}

TEST(Selection, follows_what_was_measured) {
  LinkSpeed slow_messages;
  slow_messages.message_us = 1e5;
  LinkSpeed slow_bytes;
  slow_bytes.byte_us = 1;
  const Call medium = call(operator_of<AllReduce>, 64 << 10);
  Reach reach = over_tcp(8, 4);
  reach.model = CostModel(slow_messages, 8);
  const std::string_view few_messages = selected(medium, reach);
  reach.model = CostModel(slow_bytes, 8);
  const std::string_view few_bytes = selected(medium, reach);
  EXPECT_NE(few_messages, few_bytes);
  expect_least_volume(medium, few_bytes);
}

TEST(Selection, forced_for_all_calls_leaves_operators_alone_that_do_not_have_it) {
  const Reach reach = over_tcp(4, 2);
  const Call barrier = call(operator_of<Barrier>, 0);
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 8), reach, {.by_communicator = "mesh"}), "mesh");
  EXPECT_EQ(selected(barrier, reach, {.by_communicator = "mesh"}), selected(barrier, reach));
  EXPECT_EQ(selected(barrier, reach, {.by_communicator = "direct"}), selected(barrier, reach))
      << "it needs shared memory";
}

TEST(Selection, of_equal_estimates_the_first_of_the_library_is_taken_whatever_rounding_says) {
  const Call small = call(operator_of<AllGather>, 8);
  for (int thousandths = 4000; thousandths < 4100; ++thousandths) {
    LinkSpeed speed;
    speed.ranks_per_core = 2;
    speed.message_us = thousandths / 1e3;
    Reach reach = over_tcp(4, 2);
    reach.model = CostModel(speed, 4);
    EXPECT_EQ(selected(small, reach), "recursive_doubling");  // as nb and nhr
    reach = over_tcp(2, 1);
    reach.model = CostModel(speed, 2);
    EXPECT_EQ(selected(call(operator_of<Barrier>, 0), reach), "one_shot");  // as most others
  }
}

TEST(Selection, forced_by_the_call_and_not_there_is_refused_with_those_that_are) {
  const Call barrier = call(operator_of<Barrier>, 0);
  const auto error = error_from(
      [&] { (void)selected(barrier, over_tcp(4, 2), {.by_call = "mesh", .by_communicator = "one_shot"}); });
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_THAT(error->what(), HasSubstr("algorithm 'mesh' is none that this rank has for barrier"));
  EXPECT_THAT(error->what(), HasSubstr("choose one of: one_shot, tree, recursive_doubling, ring, nb"));
}

TEST(Selection, forced_by_the_call_and_too_small_is_refused_with_how_much_it_takes) {
  const Reach reach = {.is_host_wide = true, .hosts = 4, .buffer_bytes = kBufferBytes};
  Call large = call(operator_of<AllReduce>, 1 << 20);
  large.announced_bytes = 1 << 20;
  const auto error = error_from([&] { (void)selected(large, reach, {.by_call = "slots"}); });
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_THAT(error->what(), HasSubstr("algorithm 'slots' takes up to 262144 bytes of a rank, and this "
                                       "all_reduce gives 1048576"));
}

/// Of four ranks together.
double bytes_in_round(const AnyAlgorithm& algorithm, std::size_t piece) {
  if (!algorithm.has_cost()) return 0;
  const Cost cost = algorithm.cost(piece, Hosts::apart(4).below_switches(1));
  return cost.bytes_by_all / std::max(cost.rounds, 1.0);
}

TEST(Selection, pieces_over_tcp_fit_the_cache_on_all_ranks_together_or_each_block_of_a_root) {
  LinkSpeed speed;
  speed.cache_bytes = 512 << 10;
  Reach reach = over_tcp(4, 2);
  reach.hosts = reach.hosts.below_switches(1);
  reach.model = CostModel(speed, 4);
  const std::size_t large = std::size_t{64} << 20;
  for (const Operator op : all_operators()) {
    if (!op->has_data) continue;
    for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op)) {
      const std::size_t piece = piece_bytes(algorithm, call(op, large), reach);
      const std::size_t blocks = op->has_root ? 1 : op.elements_per_count(4);
      EXPECT_LE(piece * blocks, speed.cache_bytes) << to_string(op);
      const std::size_t may_be = algorithm.largest_piece(reach.buffer_bytes, reach.hosts);
      const double on_way = bytes_in_round(algorithm, piece);
      EXPECT_LE(on_way, 3.0 * static_cast<double>(speed.cache_bytes))
          << to_string(op) << " " << algorithm.name();
      const bool is_full = on_way >= 1.5 * static_cast<double>(speed.cache_bytes);
      EXPECT_TRUE(is_full || piece * blocks >= std::min(may_be, speed.cache_bytes / 2))
          << to_string(op) << " by " << algorithm.name() << ": no smaller";
      EXPECT_EQ(piece_bytes(algorithm, call(op, 4000), reach), 4000U) << "small: whole";
    }
  }
}

/// What is on the wire lies in nobody's cache.
TEST(Selection, between_hosts_only_buffers_cut_a_message) {
  Reach reach = over_tcp(4, 2);
  reach.hosts = reach.hosts.below_switches(1);
  reach.model = CostModel(LinkSpeed{.cache_bytes = 64 << 10}, 4, NetworkSpeed{.ports = 4});
  for (const Operator op : all_operators()) {
    if (!op->has_data) continue;
    for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op)) {
      const Call large = call(op, std::size_t{64} << 20);
      const std::size_t largest = algorithm.largest_piece(reach.buffer_bytes, reach.hosts);
      EXPECT_EQ(piece_bytes(algorithm, large, reach),
                piece_bytes(large.message_bytes(), sizeof(float), largest))
          << to_string(op) << " by " << algorithm.name();
    }
  }
}

/// One stream each way, in place of one from each rank to each other.
TEST(Selection, between_hosts_what_is_nearly_as_cheap_goes_from_neighbour_to_neighbour) {
  Reach reach = over_tcp(8, 1);
  const std::vector<Operator> operators = {operator_of<AllReduce>, operator_of<AllGather>,
                                           operator_of<ReduceScatter>};
  for (const Operator op : operators) EXPECT_NE(selected(call(op, 8 << 20), reach), "ring") << to_string(op);
  const NetworkSpeed gigabit{.byte_us = 8e-3, .ports = 8};
  reach.model = CostModel(reach.model.speed(), 8, gigabit);
  for (const Operator op : operators) {
    EXPECT_EQ(selected(call(op, 8 << 20), reach), "ring") << to_string(op);
    EXPECT_NE(selected(call(op, 64), reach), "ring") << to_string(op) << ": its rounds cost more";
  }
  EXPECT_NE(selected(call(operator_of<Broadcast>, 256 << 20), reach), "ring") << "a chain waits for each";
  NetworkSpeed rdma = gigabit;
  rdma.is_tcp = false;
  reach.model = CostModel(reach.model.speed(), 8, rdma);
  for (const Operator op : operators) EXPECT_NE(selected(call(op, 8 << 20), reach), "ring") << to_string(op);
}

TEST(Selection, containers_of_a_machine_send_few_messages_rather_than_few_rounds) {
  Reach reach = over_tcp(8, 1);
  LinkSpeed speed = reach.model.speed();
  speed.ranks_per_core = 4;
  NetworkSpeed network{.latency_us = 50, .ports = 8};
  reach.model = CostModel(speed, 8, network);
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 8), reach), "recursive_doubling");
  network.is_in_one_machine = true;
  reach.model = CostModel(speed, 8, network);
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 8), reach), "tree");
  network.is_tcp = false;
  reach.model = CostModel(speed, 8, network);
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 8), reach), "recursive_doubling") << "a device's work";
  network.is_tcp = true;
  speed.ranks_per_core = 1;
  reach.model = CostModel(speed, 8, network);
  EXPECT_EQ(selected(call(operator_of<AllReduce>, 8), reach), "one_shot") << "each has a core";
}

TEST(NetworkSpeed, is_in_one_machine_where_one_kernel_has_all_hosts) {
  Membership membership;
  membership.peers.resize(3);
  for (Rank rank = 0; rank < 3; ++rank) {
    membership.peers[rank].rank = rank;
    membership.peers[rank].host_id.front() = std::byte{static_cast<std::uint8_t>(rank)};
  }
  EXPECT_TRUE(NetworkSpeed::between(membership).is_in_one_machine);
  const NetworkSpeed inside = NetworkSpeed::between(membership);
  membership.peers[2].machine_id = 1;
  NetworkSpeed measured = NetworkSpeed::between(membership);
  EXPECT_FALSE(measured.is_in_one_machine);
  EXPECT_LT(inside.latency_us, measured.latency_us);
  measured.latency_us = 200;
  EXPECT_EQ(inside.by(measured).latency_us, inside.latency_us) << "a group within a machine of several";
  EXPECT_EQ(NetworkSpeed::between(membership).by(measured).latency_us, 200);
}

TEST(NetworkSpeed, is_rdma_where_the_devices_of_all_ranks_are_on_one_network) {
  Membership membership;
  membership.peers.resize(3);
  for (Rank rank = 0; rank < 3; ++rank)
    membership.peers[rank].host_id.front() = std::byte{static_cast<std::uint8_t>(rank)};
  EXPECT_TRUE(NetworkSpeed::between(membership).is_tcp);
  for (PeerInfo& peer : membership.peers) peer.fabric = 7;
  EXPECT_FALSE(NetworkSpeed::between(membership).is_tcp);
  EXPECT_EQ(NetworkSpeed::between(membership).ports, 3);
  membership.peers[2].fabric = 8;
  EXPECT_TRUE(NetworkSpeed::between(membership).is_tcp) << "another network";
}

TEST(Selection, pieces_of_what_a_root_gives_leave_room_for_the_kernels_copy) {
  const std::size_t cache = std::size_t{1} << 20;
  const auto piece_of = [&](Operator op, std::string_view name, Rank ranks) {
    return piece_over_links(*AlgorithmTable::library().find(op, name), 64 * cache, 64 * cache,
                            Hosts::apart(ranks), cache);
  };
  EXPECT_EQ(piece_of(operator_of<Scatter>, "one_shot", 4), cache / 2);
  EXPECT_EQ(piece_of(operator_of<Gather>, "one_shot", 4), cache);
  EXPECT_EQ(piece_of(operator_of<AllReduce>, "mesh", 4), cache) << "each sends a share";
  EXPECT_EQ(piece_of(operator_of<AllReduce>, "one_shot", 4), cache / 4) << "each sends all to all";
  EXPECT_EQ(piece_of(operator_of<AllReduce>, "one_shot", 3), cache / 4) << "no third";
  EXPECT_EQ(piece_of(operator_of<AllReduce>, "one_shot", 2), cache / 2);
  EXPECT_EQ(piece_of(operator_of<AllReduce>, "one_shot", 64), cache / 16) << "no smaller";
}

TEST(CostModel, the_rank_that_sends_most_keeps_its_core_busy) {
  const CostModel model({.message_us = 10, .byte_us = 0}, 16);
  const Cost even{.messages = 16};
  const Cost of_root{.messages = 16, .messages_of_one = 15};
  EXPECT_DOUBLE_EQ(model.estimate_us(even), 2 * 10) << "each core has one, from another core";
  EXPECT_DOUBLE_EQ(model.estimate_us(of_root), 2 * (0.8 * 150 + 0.2 * 10))
      << "its end of all, and one's other";
  const Cost bytes{.bytes_moved = 15, .bytes_by_all = 15, .bytes_of_one = 15};
  EXPECT_DOUBLE_EQ(CostModel({.message_us = 0, .byte_us = 2}, 16).estimate_us(bytes), 0.8 * 30)
      << "more than the way of them and their work over all cores";
}

/// They are sent and taken while others are on their way.
TEST(CostModel, with_a_core_each_the_longer_one_of_the_way_and_of_a_ranks_messages_counts) {
  const CostModel model({.message_us = 10, .byte_us = 0}, 4);
  const double on_the_way = model.estimate_us({.rounds = 3});
  EXPECT_DOUBLE_EQ(on_the_way, 2 * 30);
  EXPECT_DOUBLE_EQ(model.estimate_us({.rounds = 3, .messages = 12}), on_the_way) << "3 messages of each rank";
  EXPECT_DOUBLE_EQ(model.estimate_us({.rounds = 3, .messages = 20}), 2 * 50);
  const CostModel crowded({.message_us = 10, .byte_us = 0, .ranks_per_core = 4}, 4);
  EXPECT_DOUBLE_EQ(crowded.estimate_us({.rounds = 3, .messages = 12}), 30 + 2 * 120);
}

TEST(CostModel, with_a_core_each_the_rank_that_takes_most_keeps_its_core_busy) {
  const CostModel model({.message_us = 10, .byte_us = 0}, 16);
  EXPECT_DOUBLE_EQ(model.estimate_us({.rounds = 1, .messages = 15, .messages_to_one = 15}),
                   2 * (0.8 * 10 + 0.2 * 150));
}

TEST(CostModel, a_group_has_no_more_ranks_to_a_core_than_ranks) {
  const LinkSpeed speed{.message_us = 10, .byte_us = 0, .ranks_per_core = 4};
  const Cost cost{.messages = 2, .messages_of_one = 1};
  EXPECT_DOUBLE_EQ(CostModel(speed, 2).estimate_us(cost), 2 * 2 * 10.0) << "one core does both ends of both";
}

TEST(Selection, unknown_algorithm_in_the_environment_is_refused_with_all_names) {
  CommunicatorOptions options;
  options.algorithm = "unheard_of";
  const auto error = error_from([&] {
    Engine engine;
    auto join = [&]() -> Task<> {
      Communicator comm = co_await Communicator::join(engine, std::move(options));
      co_await comm.close();
    };
    engine.run(join());
  });
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  for (const std::string_view name : AlgorithmTable::library().names())
    EXPECT_THAT(error->what(), HasSubstr(std::string(name)));
}

}  // namespace
}  // namespace cohort::selection_test
