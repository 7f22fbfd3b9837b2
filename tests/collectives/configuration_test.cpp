// SPDX-License-Identifier: Apache-2.0
// Ranks that were not told the same: every one learns at joining who differs, and in what.
#include <cohort/cohort.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cohort::configuration_test {
namespace {

using test::Outcome;
using testing::HasSubstr;

/// What the ranks are told when they join with options that configure() has changed for each.
template <class Configure>
std::vector<Outcome> outcomes_of_joining(Rank ranks, Configure& configure) {
  const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Engine engine;
        CommunicatorOptions options;
        options.join.rank = rank;
        options.join.size = ranks;
        options.join.address = address;
        configure(options, rank);
        auto join = [&]() -> Task<> {
          Communicator comm = co_await Communicator::join(engine, std::move(options));
          co_await comm.close();
        };
        engine.run(join());
      } catch (const Error& error) {
        outcomes[rank].error = error;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// One of four ranks has another setting than the rest: every rank is told so, with both values.
template <class Configure>
void expect_odd_one_to_be_told(Configure configure, const std::vector<std::string>& words) {
  for (const Rank odd : {0U, 2U, 3U}) {
    auto configure_odd = [&](CommunicatorOptions& options, Rank rank) { configure(options, rank == odd); };
    const std::vector<Outcome> all = outcomes_of_joining(4, configure_odd);
    for (Rank rank = 0; rank < all.size(); ++rank) {
      ASSERT_TRUE(all[rank].error) << "rank " << rank << " got no error";
      const Error& error = *all[rank].error;
      EXPECT_EQ(error.kind(), ErrorKind::Mismatch) << "rank " << rank << ": " << error.what();
      for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word)) << "rank " << rank;
      if (rank == odd) continue;
      EXPECT_EQ(error.culprit(), odd) << "rank " << rank << ": " << error.what();
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank {} (", odd)));
    }
  }
}

TEST(Configuration, a_rank_with_another_size_of_memory_or_switches_is_named_at_joining) {
  expect_odd_one_to_be_told(
      [](CommunicatorOptions& options, bool is_odd) { options.buffer_bytes = is_odd ? 131072 : 65536; },
      {"CCL buffer size differs", "131072", "65536", "COHORT_BUFFSIZE"});
  expect_odd_one_to_be_told(
      [](CommunicatorOptions& options, bool is_odd) { options.hosts_per_switch = is_odd ? 16 : 32; },
      {"number of hosts below a switch differs", "16", "32", "COHORT_HOSTS_PER_SWITCH"});
  expect_odd_one_to_be_told(
      [](CommunicatorOptions& options, bool is_odd) {
        options.transport = "shm";
        options.heap_bytes = is_odd ? 131072 : 65536;
      },
      {"shared heap size differs", "131072", "65536", "COHORT_HEAPSIZE"});
}

TEST(Configuration, a_rank_with_another_bandwidth_than_its_host_is_named_at_joining) {
  expect_odd_one_to_be_told(
      [](CommunicatorOptions& options, bool is_odd) {
        options.transport = "tcp";  // where each rank is a host: some know theirs
        options.host_bandwidth = is_odd ? 0 : 25;
      },
      {"bandwidth of a host's network differs", "25", "COHORT_HOST_BANDWIDTH"});
  auto configure = [](CommunicatorOptions& options, Rank rank) {
    options.join.host_id = rank < 2 ? "one" : "other";
    options.host_bandwidth = rank == 1 ? 100 : 25;
  };
  const std::vector<Outcome> all = outcomes_of_joining(4, configure);
  for (Rank rank = 0; rank < all.size(); ++rank) {
    ASSERT_TRUE(all[rank].error) << "rank " << rank << " got no error";
    EXPECT_EQ(all[rank].error->kind(), ErrorKind::Mismatch);
    EXPECT_EQ(all[rank].error->culprit(), 1U) << all[rank].error->what();
    EXPECT_THAT(all[rank].error->what(), HasSubstr("bandwidth of a host's network differs on one host"));
  }
}

TEST(Configuration, a_rank_with_another_number_of_connections_is_named_at_joining) {
  expect_odd_one_to_be_told(
      [](CommunicatorOptions& options, bool is_odd) {
        options.transport = "tcp";
        options.tcp_connections = is_odd ? 4 : 1;
      },
      {"number of connections of a link over TCP differs", "4", "1", "COHORT_TCP_CONNECTIONS"});
}

TEST(Configuration, more_connections_than_a_lane_may_have_are_refused) {
  auto configure = [](CommunicatorOptions& options, Rank) { options.tcp_connections = 17; };
  for (const Outcome& outcome : outcomes_of_joining(2, configure)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::InvalidArgument);
    EXPECT_THAT(outcome.error->what(), HasSubstr("17 connections (COHORT_TCP_CONNECTIONS); give 1 to 16"));
  }
}

TEST(Configuration, a_bandwidth_beyond_all_networks_is_refused) {
  auto configure = [](CommunicatorOptions& options, Rank) {
    options.host_bandwidth = kMostHostBandwidth + 1;
  };
  for (const Outcome& outcome : outcomes_of_joining(2, configure)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::InvalidArgument);
    EXPECT_THAT(outcome.error->what(), HasSubstr("1048577 (COHORT_HOST_BANDWIDTH)"));
  }
}

TEST(Configuration, a_rank_that_keeps_apart_from_its_process_alone_is_named_at_joining) {
  for (const char* transport : {"shm", "tcp"}) {
    expect_odd_one_to_be_told(
        [transport](CommunicatorOptions& options, bool is_odd) {
          options.transport = transport;
          options.is_isolated = is_odd;
        },
        {"access to ranks of one process differs", "isolated", "direct", "is_isolated"});
  }
}

TEST(Configuration, a_rank_with_another_transport_is_named_at_joining) {
  expect_odd_one_to_be_told(
      [](CommunicatorOptions& options, bool is_odd) { options.transport = is_odd ? "shm" : "tcp"; },
      {"transport differs", "shm", "tcp", "COHORT_TRANSPORT"});
}

}  // namespace
}  // namespace cohort::configuration_test
