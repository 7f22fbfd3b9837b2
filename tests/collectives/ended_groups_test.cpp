// SPDX-License-Identifier: Apache-2.0
// A group that is over on one rank while another one still connects there: nothing of it comes to the next
// one.
#include <cohort/cohort.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort::test::ended_groups_test {
namespace {

using cohort::test::error_of;
using cohort::test::kind_of;

constexpr auto kPause = std::chrono::milliseconds(300);
constexpr int kTag = 5;

/// Both ranks make it.
Task<Communicator> group_of_both(Communicator& comm, std::string name) {
  const std::vector<Rank> both = {0, 1};
  co_return co_await comm.group(both, std::move(name));
}

/// All kinds of connections, and what comes of them is what was given.
Task<> use(Communicator& group) {
  std::vector<int> data(100'000, 1);
  co_await group.all_reduce(data, ReduceOp::sum);
  EXPECT_EQ(data.back(), 2);
  const Rank other = 1 - group.rank();
  std::vector<int> got(data.size());
  auto sends = [&]() -> Task<> { co_await group.send(data, other, kTag); };
  auto receives = [&]() -> Task<> { co_await group.recv(got, other, kTag); };
  co_await when_all(sends(), receives());
  EXPECT_EQ(got, data);
}

TEST(EndedGroup, what_is_sent_there_never_comes_to_the_next_one) {
  const auto body = [](Communicator& comm) -> Task<> {
    {
      Communicator first = co_await group_of_both(comm, "first");
      co_await comm.barrier();
      if (comm.rank() == 0) co_await comm.engine().sleep_for(kPause);  // rank 1 has left it
      const std::vector<int> old = {111};
      auto say_old = [&]() -> Task<> {
        if (comm.rank() == 0) co_await first.send(old, 1, kTag);
      };
      const auto error = co_await error_of(say_old());
      EXPECT_TRUE(!error || error->kind() == ErrorKind::PeerAborted) << error->what();
      co_await first.close();
    }
    co_await comm.engine().sleep_for(kPause);
    co_await comm.barrier();
    Communicator second = co_await group_of_both(comm, "second");
    if (comm.rank() == 0) co_await comm.engine().sleep_for(kPause);
    std::vector<int> data(1, comm.rank() == 0 ? 222 : 0);
    if (comm.rank() == 0)
      co_await second.send(data, 1, kTag);
    else
      co_await second.recv(data, 0, kTag);
    EXPECT_EQ(data.front(), 222);
    co_await use(second);
  };
  run_ranks_in_world(2, body, {}, 2);
}

/// Rank 1 makes a connection for a link while rank 0 leaves, at any moment of that.
TEST(EndedGroup, a_link_to_it_is_none_of_the_next_one) {
  constexpr auto kMost = std::chrono::microseconds(500);
  constexpr auto kStep = std::chrono::microseconds(5);
  const auto body = [=](Communicator& comm) -> Task<> {
    for (Duration delay{}; delay < kMost; delay += kStep) {
      Communicator group = co_await group_of_both(comm, "ended");
      co_await comm.barrier();
      if (comm.rank() == 0) {
        co_await comm.engine().sleep_for(delay);
      } else {
        auto calls = [&]() -> Task<> { co_await group.barrier(); };
        const auto error = co_await error_of(calls());
        EXPECT_EQ(kind_of(error), "PeerAborted");
        EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{0});
      }
      co_await group.close();
      Communicator next = co_await group_of_both(comm, "next");
      co_await use(next);
      co_await next.close();
    }
  };
  run_ranks_in_world(2, body, {}, 2);
}

}  // namespace
}  // namespace cohort::test::ended_groups_test
