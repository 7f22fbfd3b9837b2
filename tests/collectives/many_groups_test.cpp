// SPDX-License-Identifier: Apache-2.0
// Hundreds of groups at once, as meshes of ranks and duplicates of communicators make them.
#include <cohort/cohort.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <ostream>
#include <vector>

namespace cohort::many_groups_test {
namespace {

using test::kind_of;
using ::testing::HasSubstr;

constexpr std::size_t kMany = 500;
constexpr std::size_t kLarge = 300'000;  // of int64, many times what a small group's buffers hold

std::vector<Rank> everybody_in(const Communicator& comm) {
  std::vector<Rank> ranks(comm.size());
  std::iota(ranks.begin(), ranks.end(), Rank{0});
  return ranks;
}

/// Whether all_reduce, all_gather and all_to_all of so many elements are right. The value tells groups apart.
Task<bool> is_right(Communicator& comm, std::int64_t value, std::size_t count) {
  std::vector<std::int64_t> own(count, value + comm.rank());
  std::vector<std::int64_t> sum(count);
  std::vector<std::int64_t> all(count * comm.size());
  std::vector<std::int64_t> exchanged(all.size());
  co_await comm.all_reduce(own, sum, ReduceOp::sum);
  co_await comm.all_gather(own, all);
  co_await comm.all_to_all(all, exchanged);
  const std::int64_t ranks = comm.size();
  bool is_so = true;
  for (const std::int64_t one : sum) is_so &= one == ranks * value + ranks * (ranks - 1) / 2;
  for (std::size_t i = 0; i < all.size(); ++i) {
    is_so &= all[i] == value + static_cast<std::int64_t>(i / count);
    is_so &= exchanged[i] == value + static_cast<std::int64_t>(comm.rank());
  }
  co_return is_so;
}

/// Makes them, uses each, some for large messages, all of them in an order of their own, and closes them.
Task<std::size_t> count_right_groups(Communicator& comm, std::size_t many) {
  std::vector<Communicator> groups;
  for (std::size_t i = 0; i < many; ++i) {
    Communicator group = co_await comm.group(everybody_in(comm), fmt::format("g{}", i));
    groups.push_back(std::move(group));
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < many; ++i) {
    const std::size_t at = i * 7 % many;
    const std::size_t count = at % 100 == 99 ? kLarge : at % 10 + 1;
    const bool is_so = co_await is_right(groups[at], static_cast<std::int64_t>(at), count);
    right += is_so ? 1 : 0;
  }
  for (Communicator& group : groups) co_await group.close();
  co_return right;
}

struct Place {
  const char* name;
  Rank ranks;
  Rank hosts;
  bool is_isolated;
};
void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

class ManyGroups : public ::testing::TestWithParam<Place> {};

TEST_P(ManyGroups, are_there_without_a_setting) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::size_t right = co_await count_right_groups(comm, kMany);
    EXPECT_EQ(right, kMany);
  };
  CommunicatorOptions options;
  options.is_isolated = GetParam().is_isolated;
  test::run_ranks(GetParam().ranks, body, std::move(options), GetParam().hosts);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ManyGroups,
                         ::testing::Values(Place{"threads", 4, 1, false}, Place{"isolated", 4, 1, true},
                                           Place{"hosts", 2, 2, false}),
                         [](const auto& test) { return test.param.name; });

TEST(ManyGroupsOfProcesses, are_there_though_one_rank_has_little_room_for_their_buffers) {
  const std::string address = fmt::format("unix:cohort-many-{:016x}", random_incarnation());
  test::MortalRanks processes;
  const Rank worked = processes.start(4, [&address](Rank rank, int progress) {
    CommunicatorOptions options;
    options.join.address = address;
    if (rank == 1) options.group_buffer_bytes = std::size_t{1} << 20;  // the least of all counts
    std::size_t right = 0;
    auto body = [&](Communicator& comm) -> Task<> {
      if (::write(progress, "x", 1) != 1) throw Error(ErrorKind::Internal, "the test is gone");
      const std::size_t found = co_await count_right_groups(comm, kMany);
      right = found;
    };
    auto join = [&](Engine& engine) -> Task<> {
      const CommunicatorOptions own = options.for_rank(rank, 4);
      Communicator comm = co_await Communicator::join(engine, own);
      co_await body(comm);
      co_await comm.close();
    };
    Engine engine;
    engine.run(join(engine));
    return right == kMany ? 0 : 1;
  });
  EXPECT_EQ(worked, 4U);
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(processes.status_of(rank), 0) << "rank " << rank;
}

TEST(GroupBuffers, beyond_their_budget_are_the_least_until_the_heap_has_no_room) {
  CommunicatorOptions options;
  options.group_buffer_bytes = std::size_t{1} << 20;
  options.heap_bytes = std::size_t{64} << 20;
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<Communicator> groups;
    std::optional<Error> error;
    while (!error && groups.size() < 1000) {
      try {
        Communicator group = co_await comm.group(everybody_in(comm), fmt::format("g{}", groups.size()));
        groups.push_back(std::move(group));
      } catch (const Error& refusal) {
        error = refusal;
      }
    }
    EXPECT_GT(groups.size(), 8U) << "more than the budget has room for";
    EXPECT_EQ(kind_of(error), "ResourceLimit");
    EXPECT_THAT(error->what(), HasSubstr("COHORT_HEAPSIZE"));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const bool is_so = co_await is_right(groups[i], static_cast<std::int64_t>(i), 30'000);
      EXPECT_TRUE(is_so) << "group " << i;
    }
    for (Communicator& group : groups) co_await group.close();
    co_await comm.barrier();
    Communicator group = co_await comm.group(everybody_in(comm), "afterwards");
    const bool is_so = co_await is_right(group, 1, 10);
    EXPECT_TRUE(is_so);
  };
  test::run_ranks_in_world(2, body, std::move(options));
}

}  // namespace
}  // namespace cohort::many_groups_test
