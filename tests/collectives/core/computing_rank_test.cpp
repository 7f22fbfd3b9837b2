// SPDX-License-Identifier: Apache-2.0
// A rank that computes reads nothing: what it is told meanwhile fills its sockets, and makes it no dead one.
#include <cohort/cohort.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace cohort::computing_rank_test {
namespace {

using cohort::test::error_of;
using cohort::test::kind_of;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// More goodbyes than a socket has room for.
constexpr int kGroups = 250;

CommunicatorOptions with_many_groups() {
  CommunicatorOptions options;
  options.buffer_bytes = std::size_t{64} << 10;
  options.group_buffer_bytes = std::size_t{256} << 20;
  return options;
}

Task<std::vector<Communicator>> make_many(Communicator& comm) {
  std::vector<Communicator> made;
  for (int i = 0; i < kGroups; ++i) {
    const std::vector<Rank> both = {0, 1};
    Communicator group = co_await comm.group(both, fmt::format("g{}", i));
    made.push_back(std::move(group));
  }
  co_return made;
}

TEST(ComputingRank, is_waited_for_as_long_as_the_calls_time_lasts) {
  CommunicatorOptions options;
  options.transport = "tcp";
  options.timeout = minutes(20);
  const auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    if (comm.rank() == 2) test::compute(comm.engine(), minutes(10));
    for (double call = 1; call <= 400; ++call) {
      std::vector<double> data(1, comm.rank() == 0 ? call : 0.0);
      co_await comm.broadcast(data, 0);
      EXPECT_EQ(data.front(), call);
    }
  };
  test::run_ranks_in_world(3, body, options);
  test::run_ranks_in_world(3, body, options, 3);
}

TEST(ComputingRank, is_asked_for_a_group_again_and_again) {
  const auto body = [](Communicator& comm) -> Task<> {
    const std::vector<Rank> both = {0, 1};
    co_await comm.barrier();
    if (comm.rank() == 1) test::compute(comm.engine(), minutes(5));
    int attempts = 0;
    for (bool is_made = comm.rank() == 2; !is_made && !comm.is_failed();) {
      ++attempts;
      Task<Communicator> making = comm.group(both, "pair");
      const Duration limit = comm.rank() == 0 ? Duration(milliseconds(100)) : Duration(seconds(5));
      const auto error = co_await error_of(with_deadline(limit, std::move(making)));
      is_made = !error;
      EXPECT_TRUE(!error || error->kind() == ErrorKind::DeadlineExceeded) << error->what();
    }
    EXPECT_GT(attempts, comm.rank() == 0 ? 500 : -1);
    co_await comm.barrier();
  };
  test::run_ranks_in_world(3, body);
  test::run_ranks_in_world(3, body, {}, 3);
}

TEST(ComputingRank, hears_of_the_end_of_all_groups_when_it_calls_again) {
  const auto body = [](Communicator& comm) -> Task<> {
    std::vector<Communicator> made = co_await make_many(comm);
    co_await comm.barrier();
    if (comm.rank() == 1) test::compute(comm.engine(), seconds(10));
    for (Communicator& group : made) co_await group.close();
    co_await comm.barrier();
    const std::vector<Rank> both = {1, 0};
    Communicator next = co_await comm.group(both, "next");
    co_await next.barrier();
  };
  test::run_ranks_in_world(2, body, with_many_groups());
  test::run_ranks_in_world(2, body, with_many_groups(), 2);
}

/// Whoever leaves waits until the other one has taken its goodbyes: the end of a connection would come first.
TEST(ComputingRank, hears_that_the_others_have_left_in_good_order) {
  const auto body = [](Communicator& comm) -> Task<> {
    std::vector<Communicator> made = co_await make_many(comm);
    co_await comm.barrier();
    if (comm.rank() == 1) test::compute(comm.engine(), seconds(30));
    for (Communicator& group : made) {
      auto calls = [&]() -> Task<> {
        if (comm.rank() == 1) co_await group.barrier();
      };
      const auto error = co_await error_of(calls());
      EXPECT_EQ(kind_of(error), comm.rank() == 1 ? "PeerAborted" : "no error") << group.name();
      co_await group.close();
    }
  };
  test::run_ranks_in_world(2, body, with_many_groups());
  test::run_ranks_in_world(2, body, with_many_groups(), 2);
}

/// With the kernel's sockets, which are full sooner or later than those of a simulated world.
TEST(ComputingRank, is_told_by_the_kernels_sockets_too) {
  const auto body = [](Communicator& comm) -> Task<> {
    std::vector<Communicator> made = co_await make_many(comm);
    co_await comm.barrier();
    if (comm.rank() == 1) std::this_thread::sleep_for(seconds(1));
    for (Communicator& group : made) co_await group.close();
    co_await comm.barrier();
  };
  test::run_ranks(2, body, with_many_groups());
  CommunicatorOptions over_tcp = with_many_groups();
  over_tcp.is_isolated = true;
  test::run_ranks(2, body, over_tcp, 2);
}

}  // namespace
}  // namespace cohort::computing_rank_test
