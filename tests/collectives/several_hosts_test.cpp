// SPDX-License-Identifier: Apache-2.0
// Which transport connects whom: ranks of one host share memory, whoever else there is.
#include <cohort/cohort.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/collectives/selection/explanation.h>
#include <cohort/net/auth/identity.h>
#include <cohort/net/data_connections.h>
#include <cohort/net/transport_list.h>
#include <cohort/tests/support/queue_transport.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <thread>

namespace cohort::several_hosts_test {
namespace {

using test::Outcome;
using testing::HasSubstr;

/// What communicators say of their transport, by rank; all have summed their ranks.
std::vector<std::string> transports_of(Rank ranks, Rank hosts, CommunicatorOptions options = {}) {
  std::vector<std::string> names(ranks);
  const bool maps_memory = options.transport.empty() && options.transports.empty();
  auto body = [&](Communicator& comm) -> Task<> {
    names[comm.rank()] = comm.transport();
    EXPECT_EQ(comm.reach().is_host_wide, hosts == 1 && comm.transport() == "shm");
    std::vector<Rank> host_of(ranks);
    for (Rank rank = 0; rank < ranks; ++rank) host_of[rank] = maps_memory ? rank * hosts / ranks : rank;
    EXPECT_EQ(comm.reach().hosts, Hosts(host_of));
    std::vector<std::int64_t> sum = {comm.rank()};
    co_await comm.all_reduce(std::span<std::int64_t>(sum), ReduceOp::sum);
    EXPECT_EQ(sum[0], ranks * (ranks - 1) / 2);
  };
  test::run_ranks(ranks, body, std::move(options), hosts);
  return names;
}

TEST(SeveralHosts, ranks_of_one_host_share_memory_and_reach_others_over_tcp) {
  EXPECT_THAT(transports_of(4, 2), testing::Each("shm+tcp"));
  EXPECT_THAT(transports_of(4, 1), testing::Each("shm"));
  EXPECT_THAT(transports_of(3, 3), testing::Each("tcp"));
  EXPECT_THAT(transports_of(3, 2), testing::ElementsAre("shm+tcp", "shm+tcp", "tcp"));
  EXPECT_THAT(transports_of(1, 1), testing::Each("shm"));
}

/// How many times a ring goes around for an all_reduce of 64 MiB, by what the communicator says of itself.
double times_around(const Communicator& comm) {
  const Explanation explanation =
      comm.explain(operator_of<AllReduce>, DataType::float32, std::size_t{64} << 20);
  const auto ring = std::ranges::find(explanation.candidates, "ring",
                                      [](const Explanation::Line& line) { return line.candidate.algorithm; });
  return ring->candidate.cost->rounds / (2 * (comm.size() - 1.0));
}

TEST(SeveralHosts, caches_cut_messages_between_ranks_that_share_them_and_no_others) {
  CommunicatorOptions options;
  options.transport = "tcp";
  const auto on_hosts = [&](Rank hosts) {
    auto body = [&](Communicator& comm) -> Task<> {
      const bool is_cut = times_around(comm) > 1;
      EXPECT_EQ(is_cut, hosts == 1) << hosts << " hosts";
      std::optional<Communicator> pair = co_await comm.split(comm.rank() / 2, 0);  // of one host
      EXPECT_GT(times_around(*pair), 1) << hosts << " hosts";
      co_await pair->barrier();
      co_await pair->close();
    };
    test::run_ranks(4, body, options, hosts);
  };
  on_hosts(1);
  on_hosts(2);
}

int option_of(int socket, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/// TCP connections of this process whose buffers somebody has sized, so that the kernel no longer does.
int connections_of_fixed_size() {
  constexpr int kBufferLock = 72;  // SO_BUF_LOCK, Linux 5.14
  int fixed = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    const bool is_tcp = option_of(descriptor, SO_PROTOCOL) == IPPROTO_TCP;
    if (is_tcp && option_of(descriptor, kBufferLock) > 0) ++fixed;
  }
  return fixed;
}

TEST(SeveralHosts, the_kernel_sizes_what_is_between_hosts) {
  CommunicatorOptions options;
  options.transport = "tcp";
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> sum(1000, 1.0F);
    co_await comm.all_reduce(std::span(sum), ReduceOp::sum);
    co_await comm.barrier();
    EXPECT_EQ(connections_of_fixed_size(), 0);
    co_await comm.barrier();
  };
  test::run_ranks(3, body, options, 3);
}

TEST(SeveralHosts, a_group_knows_which_of_its_ranks_share_a_host) {
  auto body = [](Communicator& comm) -> Task<> {
    std::optional<Communicator> group = co_await comm.split(comm.rank() % 2, 0);
    const bool is_even = comm.rank() % 2 == 0;  // 0, 2 and 4, of hosts 0, 0, 1; 1, 3 and 5, of hosts 0, 1, 1
    const std::vector<Rank> host_of = {0, is_even ? 0U : 1U, 1};
    EXPECT_EQ(group->reach().hosts, Hosts(host_of));
    co_await group->barrier();
    co_await group->close();
  };
  test::run_ranks(6, body, {}, 2);
}

TEST(SeveralHosts, a_group_knows_which_of_its_hosts_are_below_one_switch) {
  CommunicatorOptions options;
  options.hosts_per_switch = 2;
  auto body = [](Communicator& comm) -> Task<> {
    EXPECT_EQ(*comm.reach().hosts.switches(), Hosts(std::vector<Rank>{0, 0, 1}));
    const int color = comm.rank() == 0 ? 1 : 0;
    std::optional<Communicator> group = co_await comm.split(color, 0);
    if (color == 0) {
      EXPECT_EQ(*group->reach().hosts.switches(), Hosts(std::vector<Rank>{0, 1}));
    }
    co_await group->barrier();
    co_await group->close();
  };
  test::run_ranks(3, body, options, 3);
}

/// So large that it goes through the levels in pieces.
void expect_large_sums(Rank ranks, std::span<const std::string_view> algorithms, Rank hosts = 2,
                       Rank hosts_per_switch = 0) {
  constexpr std::size_t kCount = 300'001;
  auto body = [&](Communicator& comm) -> Task<> {
    for (const std::string_view name : algorithms) {
      std::vector<std::int32_t> sum(kCount);
      for (std::size_t i = 0; i < kCount; ++i) sum[i] = static_cast<std::int32_t>(i % 1000 + comm.rank());
      auto call = comm.all_reduce(std::span(sum), ReduceOp::sum).with_algorithm(name);
      co_await std::move(call);
      const auto expected = [&](std::size_t i) {
        return static_cast<std::int32_t>(i % 1000 * ranks + ranks * (ranks - 1) / 2);
      };
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kCount; ++i) wrong += sum[i] == expected(i) ? 0 : 1;
      EXPECT_EQ(wrong, 0U) << name << ", " << ranks << " ranks";
    }
  };
  CommunicatorOptions options;
  options.hosts_per_switch = hosts_per_switch;
  test::run_ranks(ranks, body, options, hosts);
}

/// Switches of hosts of ranks: 2 x 2 x 2, 2 x 3 x 1, 3 x 2 x 2.
TEST(SeveralHosts, three_levels_sum_large_vectors) {
  constexpr std::string_view kAlgorithms[] = {"mesh_mesh_nhr"};
  expect_large_sums(8, kAlgorithms, 4, 2);
  expect_large_sums(6, kAlgorithms, 6, 3);
  expect_large_sums(12, kAlgorithms, 6, 2);
}

TEST(SeveralHosts, three_levels_give_each_its_blocks) {
  constexpr std::size_t kCount = 1001;
  CommunicatorOptions options;
  options.hosts_per_switch = 3;
  auto body = [&](Communicator& comm) -> Task<> {
    std::vector<std::int32_t> own(kCount, static_cast<std::int32_t>(comm.rank()));
    std::vector<std::int32_t> all(kCount * comm.size());
    auto gather = comm.all_gather(own, all).with_algorithm("mesh_mesh_nhr");
    co_await std::move(gather);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i], static_cast<std::int32_t>(i / kCount));
      all[i] += static_cast<std::int32_t>(i % kCount + comm.rank());
    }
    auto scatter = comm.reduce_scatter(all, own, ReduceOp::sum).with_algorithm("mesh_mesh_nhr");
    co_await std::move(scatter);
    const Rank ranks = comm.size();
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_EQ(own[i], static_cast<std::int32_t>(ranks * (comm.rank() + i) + ranks * (ranks - 1) / 2));
  };
  test::run_ranks(12, body, options, 6);
}

TEST(SeveralHosts, levels_sum_large_vectors_at_once) {
  constexpr std::string_view kAlgorithms[] = {"mesh_nhr", "mesh_ring", "mesh_nhr_pipelined", "tree_nhr",
                                              "ahc"};
  for (const Rank ranks : {4U, 6U}) expect_large_sums(ranks, kAlgorithms);
}

TEST(SeveralHosts, levels_sum_large_vectors_on_hosts_of_unequal_size) {
  constexpr std::string_view kAlgorithms[] = {"tree_nhr", "ahc"};
  for (const Rank ranks : {3U, 5U}) expect_large_sums(ranks, kAlgorithms);
}

/// Blocks so large that they go in pieces, which the shorter ones have left before the longest is over: rank
/// r's has r of them, and so rank 0 none.
TEST(SeveralHosts, hosts_of_unequal_size_move_blocks_that_differ) {
  constexpr std::size_t kStep = 30'001;
  for (const Rank ranks : {3U, 5U, 8U}) {
    std::vector<std::size_t> counts(ranks);
    for (Rank rank = 0; rank < ranks; ++rank) counts[rank] = rank * kStep;
    const std::size_t count = ranks * (ranks - 1) / 2 * kStep;
    auto body = [&](Communicator& comm) -> Task<> {
      std::vector<std::int32_t> own(counts[comm.rank()], static_cast<std::int32_t>(comm.rank()));
      std::vector<std::int32_t> all(count);
      auto gather = comm.all_gather_v(own, all, counts).with_algorithm("ahc");
      co_await std::move(gather);
      std::vector<std::int32_t> expected;
      for (Rank rank = 0; rank < ranks; ++rank)
        expected.insert(expected.end(), counts[rank], static_cast<std::int32_t>(rank));
      EXPECT_EQ(all, expected) << ranks << " ranks";
      auto scatter = comm.reduce_scatter_v(all, own, counts, ReduceOp::sum).with_algorithm("ahc");
      co_await std::move(scatter);
      EXPECT_THAT(own, testing::Each(static_cast<std::int32_t>(ranks * comm.rank()))) << ranks << " ranks";
    };
    const Rank hosts = ranks == 8 ? 3 : 2;
    test::run_ranks(ranks, body, {}, hosts);
  }
}

/// Ranks of hosts whose networks have these bandwidths, each on a thread.
void run_with_bandwidths(std::span<const Rank> host_of, std::span<const std::uint32_t> bandwidths,
                         const RankFunction& body) {
  const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
  const auto ranks = static_cast<Rank>(host_of.size());
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.join.rank = rank;
      options.join.size = ranks;
      options.join.address = address;
      options.join.host_id = fmt::format("host {}", host_of[rank]);
      options.host_bandwidth = bandwidths[host_of[rank]];
      Engine engine;
      engine.set_oversubscribed(true);
      auto run = [&]() -> Task<> {
        Communicator comm = co_await Communicator::join(engine, std::move(options));
        co_await body(comm);
        co_await comm.close();
      };
      EXPECT_NO_THROW(engine.run(run())) << "rank " << rank;
    });
  for (std::thread& thread : threads) thread.join();
}

/// So large that the fastest host's share goes in pieces.
TEST(SeveralHosts, unequal_networks_carry_shares_of_a_vector_in_proportion) {
  constexpr std::size_t kCount = 300'001;
  const std::vector<Rank> host_of = {0, 1, 1, 2};
  const std::vector<std::uint32_t> bandwidths = {10, 40, 150};
  auto body = [&](Communicator& comm) -> Task<> {
    const Hosts& hosts = comm.reach().hosts;
    EXPECT_EQ(hosts.elements_before(1, 200), 10U);
    EXPECT_EQ(hosts.elements_before(2, 200), 50U);
    std::vector<std::int32_t> values(kCount, static_cast<std::int32_t>(comm.rank()));
    auto reduce = comm.reduce(std::span(values), ReduceOp::sum, 2).with_algorithm("ahc");
    co_await std::move(reduce);
    if (comm.rank() == 2) {
      EXPECT_THAT(values, testing::Each(6));
    }
    auto broadcast = comm.broadcast(std::span(values), 2).with_algorithm("ahc");
    co_await std::move(broadcast);
    EXPECT_THAT(values, testing::Each(6));
    auto sum = comm.all_reduce(std::span(values), ReduceOp::sum).with_algorithm("ahc");
    co_await std::move(sum);
    EXPECT_THAT(values, testing::Each(24));
  };
  run_with_bandwidths(host_of, bandwidths, body);
}

TEST(SeveralHosts, a_transport_that_is_asked_for_is_used_everywhere_or_refused) {
  CommunicatorOptions options;
  options.transport = "tcp";
  EXPECT_THAT(transports_of(4, 2, std::move(options)), testing::Each("tcp"));
  CommunicatorOptions shm;
  shm.transport = "shm";
  auto body = [](Communicator&) -> Task<> { co_return; };
  for (const Outcome& outcome : test::outcomes_of_ranks(4, body, std::move(shm), 2)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::Unsupported);
    EXPECT_THAT(outcome.error->what(), HasSubstr("the 4 ranks of 'world' are on several hosts"));
  }
}

TEST(SeveralHosts, a_transport_that_there_is_not_is_refused_with_those_there_are) {
  CommunicatorOptions options;
  options.transport = "pigeon";
  auto body = [](Communicator&) -> Task<> { co_return; };
  const auto outcomes = test::outcomes_of_ranks(1, body, std::move(options));
  ASSERT_TRUE(outcomes[0].error);
  EXPECT_EQ(outcomes[0].error->kind(), ErrorKind::InvalidArgument);
  EXPECT_THAT(outcomes[0].error->what(), HasSubstr("'pigeon' (COHORT_TRANSPORT) is none of shm, verbs, tcp"));
}

/// Its ends wait for each other, as those of RDMA do.
class MeetingTransport final : public test::QueueTransport {
 public:
  using QueueTransport::QueueTransport;
  void start(TaskScope& services) override { use_.connections.start(services); }
  [[nodiscard]] Task<std::unique_ptr<Link>> connect(Rank peer, Lane lane) override {
    Socket socket = co_await use_.connections.open(peer, lane);
    std::array<std::byte, 1> word{};
    co_await socket.send(word);
    const bool has_come = co_await socket.receive(word);
    EXPECT_TRUE(has_come);
    co_return std::make_unique<test::QueueLink>(use_, peer, lane);
  }
};

TEST(SeveralHosts, ends_of_links_that_wait_for_each_other_make_no_ring_of_ranks_wait) {
  TransportKind arrival = test::kQueueTransport;
  arrival.make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
    return std::make_unique<MeetingTransport>(use);
  };
  CommunicatorOptions options;
  options.transports = std::span(&arrival, 1);
  options.timeout = std::chrono::seconds(10);
  EXPECT_THAT(transports_of(4, 1, std::move(options)), testing::Each("queue"));
}

TEST(SeveralHosts, kinds_of_the_programs_own_are_chosen_in_its_order) {
  const TransportKind tcp = *std::ranges::find(cohort::transports(), "tcp", &TransportKind::name);
  const TransportKind kinds[] = {test::kQueueTransport, tcp};
  CommunicatorOptions options;
  options.transports = kinds;
  EXPECT_THAT(transports_of(4, 2, std::move(options)), testing::Each("queue+tcp"));
}

/// Reaches everybody, and breaks on rank 1 as soon as it is used.
class BrokenTransport final : public Transport {
 public:
  explicit BrokenTransport(const TransportUse& use)
      : engine_(use.engine), is_broken_(use.membership.rank == 1) {}
  void start(TaskScope& services) override {
    if (is_broken_) services.spawn(serve());
  }
  Task<std::unique_ptr<Link>> connect(Rank, Lane) override {
    co_await engine_.sleep_until(kNever);
    co_return nullptr;
  }

 private:
  Task<> serve() {
    co_await engine_.sleep_for(std::chrono::milliseconds(1));
    throw Error(ErrorKind::ResourceLimit, "accept: no buffer space");
  }

  Engine& engine_;
  const bool is_broken_;
};

TEST(SeveralHosts, a_service_that_ends_fails_everybody_with_its_cause) {
  const TransportKind kinds[] = {{.name = "broken",
                                  .can = {},
                                  .reaches = [](const Membership&, Rank) { return true; },
                                  .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
                                    return std::make_unique<BrokenTransport>(use);
                                  }}};
  CommunicatorOptions options;
  options.transports = kinds;
  auto body = [](Communicator& comm) -> Task<> { co_await comm.barrier(); };
  for (const Outcome& outcome : test::outcomes_of_ranks_in_world(3, body, std::move(options))) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::ResourceLimit) << outcome.error->what();
    EXPECT_EQ(outcome.error->culprit(), Rank{1});
    EXPECT_THAT(outcome.error->what(), HasSubstr("cannot go on talking with its peers"));
    EXPECT_THAT(outcome.error->what(), HasSubstr("accept: no buffer space"));
  }
}

TEST(SeveralHosts, a_rank_that_cannot_make_its_communicator_tells_the_others_why) {
  const TransportKind kinds[] = {{.name = "scarce",
                                  .can = {},
                                  .reaches = [](const Membership&, Rank) { return true; },
                                  .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
                                    if (use.membership.rank == 1)
                                      throw Error(ErrorKind::ResourceLimit, "no memory for links");
                                    return std::make_unique<BrokenTransport>(use);
                                  }}};
  CommunicatorOptions options;
  options.transports = kinds;
  auto body = [](Communicator& comm) -> Task<> { co_await comm.barrier(); };
  const std::vector<Outcome> outcomes = test::outcomes_of_ranks_in_world(4, body, std::move(options));
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::ResourceLimit) << outcome.error->what();
    EXPECT_THAT(outcome.error->what(), HasSubstr("no memory for links"));
  }
  for (const Rank rank : {0U, 2U, 3U}) {
    EXPECT_EQ(outcomes[rank].error->culprit(), Rank{1});
    EXPECT_THAT(outcomes[rank].error->what(), HasSubstr("rank 1 ("));
  }
}

/// Rank 2 of two hosts with two ranks each is told to use TCP alone; rank 3 of its host is not.
TEST(SeveralHosts, ranks_of_a_host_that_do_not_agree_are_told_so) {
  const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
  std::vector<std::optional<Error>> errors(4);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Engine engine;
        CommunicatorOptions options;
        options.join.rank = rank;
        options.join.size = 4;
        options.join.address = address;
        options.join.host_id = test::host_of(rank, 4, 2);
        if (rank == 2) options.transport = "tcp";
        auto join = [&]() -> Task<> {
          Communicator comm = co_await Communicator::join(engine, std::move(options));
          co_await comm.barrier();  // those of the other host agree with everybody, and hear of it now
          co_await comm.close();
        };
        engine.run(join());
      } catch (const Error& error) {
        errors[rank] = error;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::Mismatch) << error->what();
    EXPECT_THAT(error->what(), HasSubstr("transport differs"));
    EXPECT_THAT(error->what(), HasSubstr("COHORT_TRANSPORT"));
  }
}

}  // namespace
}  // namespace cohort::several_hosts_test
