// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

namespace cohort::test::groups_test {
namespace {

using cohort::test::error_of;
using cohort::test::kind_of;
using ::testing::HasSubstr;

template <class... R>
std::vector<Rank> ranks_of(R... ranks) {
  return {static_cast<Rank>(ranks)...};
}

/// The sum of what all ranks give, of that many elements, each of them alike.
Task<std::int64_t> sum_of(Communicator& comm, std::int64_t value, std::size_t count = 1) {
  std::vector<std::int64_t> values(count, value);
  co_await comm.all_reduce(values, ReduceOp::sum);
  EXPECT_EQ(std::count(values.begin(), values.end(), values[0]), static_cast<std::ptrdiff_t>(count));
  co_return values[0];
}

Task<std::optional<Error>> error_of_barrier(Communicator& comm) {
  Task<> barrier = comm.barrier();
  co_return co_await error_of(std::move(barrier));
}

/// All operators, in a group: what comes out is what the group's ranks gave.
Task<> use_all(Communicator& comm, std::size_t count) {
  const auto size = static_cast<std::int64_t>(comm.size());
  const std::int64_t sum = co_await sum_of(comm, comm.rank() + 1, count);
  EXPECT_EQ(sum, size * (size + 1) / 2);
  co_await comm.barrier();
  std::vector<std::int32_t> own(count, static_cast<std::int32_t>(comm.rank()));
  std::vector<std::int32_t> all(count * comm.size());
  co_await comm.all_gather(own, all);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int32_t>(i / count));
  co_await comm.broadcast(own, comm.size() - 1);
  EXPECT_EQ(own.back(), static_cast<std::int32_t>(comm.size() - 1));
  std::vector<std::int32_t> block(count);
  co_await comm.reduce_scatter(all, block, ReduceOp::sum);
  EXPECT_EQ(block.back(), static_cast<std::int32_t>(comm.rank() * comm.size()));
  co_await comm.reduce(block, ReduceOp::max, 0);
}

struct Place {
  const char* name;
  const char* transport;
  Rank hosts;
  bool is_isolated;
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

class Groups : public ::testing::TestWithParam<Place> {
 protected:
  [[nodiscard]] static CommunicatorOptions options() {
    CommunicatorOptions options;
    options.transport = GetParam().transport;
    options.is_isolated = GetParam().is_isolated;
    return options;
  }
};

TEST_P(Groups, are_communicators_like_any_other) {
  auto body = [](Communicator& comm) -> Task<> {
    const int color = static_cast<int>(comm.rank() % 2);
    std::optional<Communicator> half = co_await comm.split(color);
    EXPECT_EQ(half->rank(), comm.rank() / 2);
    EXPECT_EQ(half->size(), comm.rank() % 2 == 0 ? 3U : 2U);
    EXPECT_EQ(half->world_rank(half->rank()), comm.rank());
    for (std::size_t count = 1; count < 300'000; count *= 60) co_await use_all(*half, count);
    const std::int64_t sum = co_await sum_of(comm, 1);
    EXPECT_EQ(sum, 5);
  };
  run_ranks(5, body, options(), GetParam().hosts);
}

TEST_P(Groups, of_which_one_waits_hold_up_no_others_whatever_the_order) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<Rank> everybody = {0, 1, 2, 3};
    Communicator one = co_await comm.group(everybody, "one");
    Communicator other = co_await comm.group(everybody, "other");
    auto in_one = [&]() -> Task<> {
      const std::int64_t sum = co_await sum_of(one, 1, 30'000);
      EXPECT_EQ(sum, 4);
    };
    auto in_other = [&]() -> Task<> {
      const std::int64_t sum = co_await sum_of(other, 2, 20'000);
      EXPECT_EQ(sum, 8);
    };
    auto in_all = [&]() -> Task<> {
      const std::int64_t sum = co_await sum_of(comm, 3, 10'000);
      EXPECT_EQ(sum, 12);
    };
    for (int round = 0; round < 5; ++round) {
      if (comm.rank() == 0) {
        co_await in_one();
        co_await in_other();
        co_await in_all();
      } else if (comm.rank() == 1) {
        co_await when_all(in_all(), in_other(), in_one());
      } else {
        co_await when_all(in_other(), in_one(), in_all());
      }
    }
  };
  run_ranks(4, body, options(), GetParam().hosts);
}

TEST_P(Groups, are_made_at_once_without_waiting_for_each_other) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<Communicator> made;
    auto make = [&](std::vector<Rank> ranks, std::string name) -> Task<> {
      Communicator group = co_await comm.group(std::move(ranks), std::move(name));
      const std::int64_t sum = co_await sum_of(group, 1);
      EXPECT_EQ(sum, group.size());
      made.push_back(std::move(group));
    };
    // A ring of pairs, each rank beginning with another one.
    const Rank next = (comm.rank() + 1) % comm.size();
    const Rank before = (comm.rank() + comm.size() - 1) % comm.size();
    auto right = [&]() -> Task<> {
      co_await make(ranks_of(comm.rank(), next), fmt::format("pair{}", comm.rank()));
    };
    auto left = [&]() -> Task<> {
      co_await make(ranks_of(before, comm.rank()), fmt::format("pair{}", before));
    };
    if (comm.rank() % 2 == 0)
      co_await when_all(right(), left());
    else
      co_await when_all(left(), right());
    EXPECT_EQ(made.size(), 2U);
    co_await comm.barrier();
  };
  run_ranks(6, body, options(), GetParam().hosts);
}

TEST_P(Groups, outlive_the_communicator_that_they_were_made_in) {
  auto body = [](Communicator& comm) -> Task<> {
    Communicator reversed = co_await comm.group(ranks_of(2, 1, 0), "reversed");
    EXPECT_EQ(reversed.rank(), 2 - comm.rank());
    EXPECT_EQ(reversed.world_rank(0), 2U);
    const int color = reversed.rank() == 0 ? -1 : 7;
    std::optional<Communicator> within = co_await reversed.split(color, 1);
    EXPECT_EQ(within.has_value(), comm.rank() != 2);
    co_await comm.close();
    co_await use_all(reversed, 5000);
    if (!within) co_return;
    co_await reversed.close();
    EXPECT_EQ(within->size(), 2U);
    EXPECT_EQ(within->world_rank(0), 1U);
    co_await use_all(*within, 5000);
  };
  run_ranks(3, body, options(), GetParam().hosts);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Groups,
                         ::testing::Values(Place{"threads", "", 1, false}, Place{"isolated", "", 1, true},
                                           Place{"tcp", "tcp", 1, false}, Place{"hosts", "", 2, true}),
                         [](const auto& test) { return test.param.name; });

TEST(GroupTable, regions_and_numbers_serve_again_when_everybody_has_left) {
  CommunicatorOptions options;
  options.heap_bytes = std::size_t{64} << 20;  // room for few at a time
  auto body = [](Communicator& comm) -> Task<> {
    for (int round = 0; round < 40; ++round) {
      Communicator group = co_await comm.group(ranks_of(1, 0, 2), "again");
      const std::int64_t sum = co_await sum_of(group, round, 20'000);
      EXPECT_EQ(sum, 3 * round);
      co_await group.close();
      co_await comm.barrier();
    }
  };
  run_ranks_in_world(3, body, std::move(options));
}

TEST(GroupTable, a_rank_without_memory_for_its_part_is_named_by_all_and_none_makes_the_group) {
  CommunicatorOptions options;
  options.heap_bytes = std::size_t{32} << 20;
  options.buffer_bytes = std::size_t{64} << 10;
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<SharedBuffer<float>> all;
    std::optional<Error> full;
    while (comm.rank() == 0 && !full) {
      try {
        all.push_back(comm.allocate<float>(std::size_t{1} << 16));
      } catch (const Error& error) {
        full = error;
      }
    }
    const auto error = co_await error_of(comm.group(ranks_of(0, 1, 2, 3), "all"));
    EXPECT_EQ(kind_of(error), "ResourceLimit") << error->what();
    EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{0});
  };
  run_ranks_in_world(4, body, options);
  run_ranks_in_world(4, body, options, 2);
}

TEST(GroupTable, groups_are_found_by_name_until_they_are_closed) {
  auto body = [](Communicator& comm) -> Task<> {
    {
      Communicator group = co_await comm.group(ranks_of(0, 1), "both");
      EXPECT_EQ(group.name(), "world/both");
      std::optional<Communicator> found = comm.find_group("both");
      EXPECT_EQ(found->rank(), group.rank());
      const std::int64_t sum = co_await sum_of(*found, 1);
      EXPECT_EQ(sum, 2);
      EXPECT_FALSE(comm.find_group("other"));
      const auto twice = co_await error_of(comm.group(ranks_of(0, 1), "both"));
      EXPECT_EQ(kind_of(twice), "InvalidArgument");
    }
    EXPECT_FALSE(comm.find_group("both"));
    co_await comm.barrier();
  };
  run_ranks_in_world(2, body);
}

TEST(GroupTable, what_cannot_be_a_group_is_refused_where_it_is_asked_for) {
  auto body = [](Communicator& comm) -> Task<> {
    const auto expect_refused = [&](std::vector<Rank> ranks, std::string name, std::string why) -> Task<> {
      const auto error = co_await error_of(comm.group(std::move(ranks), std::move(name)));
      EXPECT_EQ(kind_of(error), "InvalidArgument");
      EXPECT_THAT(error->what(), HasSubstr(why));
    };
    if (comm.rank() != 0) co_return;
    co_await expect_refused(ranks_of(0, 2), "x", "names rank 2, but the ranks are 0 to 1");
    co_await expect_refused(ranks_of(0, 0), "x", "names rank 0 twice");
    co_await expect_refused(ranks_of(1), "x", "only members call group()");
    co_await expect_refused(ranks_of(0), "a/b", "a name is made of");
    co_await expect_refused(ranks_of(0), "", "a name is made of");
    co_await expect_refused(ranks_of(0), std::string(500, 'a'), "a name is made of");
  };
  run_ranks_in_world(2, body);
}

TEST(GroupTable, members_that_disagree_are_told_who) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::vector<Rank> ranks = comm.rank() == 1 ? std::vector<Rank>{1, 0} : std::vector<Rank>{0, 1};
    const auto error = co_await error_of(comm.group(ranks, "pair"));
    EXPECT_EQ(kind_of(error), "Mismatch");
    EXPECT_THAT(error->what(), HasSubstr("give the same ranks in the same order"));
    co_await comm.barrier();
    Communicator agreed = co_await comm.group(ranks_of(0, 1), "pair");
    co_await use_all(agreed, 10);
  };
  run_ranks_in_world(2, body);
}

TEST(GroupTable, who_does_not_come_is_named_and_may_come_to_the_next) {
  CommunicatorOptions options;
  options.timeout = std::chrono::seconds(1);
  auto body = [](Communicator& comm) -> Task<> {
    if (comm.rank() == 2) {
      co_await comm.engine().sleep_for(std::chrono::seconds(2));
    } else {
      const auto error = co_await error_of(comm.group(ranks_of(0, 1, 2), "trio"));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded");
      EXPECT_THAT(error->what(),
                  HasSubstr("'world/trio' was not made within 1.000 s: not called so far by rank 2"));
      EXPECT_EQ(error->culprit(), Rank{2});
      co_await comm.engine().sleep_for(std::chrono::milliseconds(1500));
    }
    if (comm.rank() == 2) {
      const auto too_late = co_await error_of(comm.group(ranks_of(0, 1, 2), "trio"));
      EXPECT_EQ(kind_of(too_late), "DeadlineExceeded") << "the cause of those who waited";
    }
    Communicator trio = co_await comm.group(ranks_of(0, 1, 2), "trio");
    co_await use_all(trio, 10);
  };
  run_ranks_in_world(3, body, std::move(options));
}

/// In a group their callers do not know the ranks of what was joined.
TEST(GroupTable, errors_of_making_one_name_the_culprit_by_its_rank_where_it_was_called) {
  CommunicatorOptions options;
  options.timeout = std::chrono::seconds(1);
  auto body = [](Communicator& comm) -> Task<> {
    Communicator reversed = co_await comm.group(ranks_of(2, 1, 0), "reversed");
    if (comm.rank() == 0) {
      co_await comm.engine().sleep_for(std::chrono::seconds(2));
      co_return;
    }
    const auto late = co_await error_of(reversed.group(ranks_of(0, 1, 2), "late"));
    EXPECT_EQ(kind_of(late), "DeadlineExceeded");
    EXPECT_EQ(late ? late->culprit() : std::nullopt, Rank{2});
    EXPECT_THAT(late ? late->what() : "", HasSubstr("not called so far by rank 0 ("));
    EXPECT_THAT(late ? late->what() : "", HasSubstr("(rank 0 of 'world' is rank 2 of 'world/reversed')"));
    const std::vector<Rank> ranks = comm.rank() == 1 ? ranks_of(0, 1) : ranks_of(1, 0);
    const auto other = co_await error_of(reversed.group(ranks, "other"));
    EXPECT_EQ(kind_of(other), "Mismatch");
    EXPECT_THAT(other ? other->what() : "", HasSubstr("of 'world'; all members must give the same ranks"));
    EXPECT_THAT(other ? other->what() : "", HasSubstr(" of 'world' is rank "));
  };
  run_ranks_in_world(3, body, std::move(options));
}

/// Rank 0 has heard of everybody, left and ended before rank 1 and rank 2 have heard of each other.
TEST(GroupTable, a_rank_that_made_a_group_and_left_is_not_dead_to_those_who_still_make_it) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = {0, 1, 2};
  settings.degraded = {{.from = 1, .to = 2, .latency_factor = 2000}};
  auto body = [](Communicator& comm) -> Task<> {
    Communicator all = co_await comm.group(ranks_of(0, 1, 2), "all");
    if (comm.rank() == 0) {
      co_await all.close();
      co_return;
    }
    Communicator both = co_await comm.group(ranks_of(2, 1), "both");
    co_await use_all(both, 10);
    const auto error = co_await error_of_barrier(all);
    EXPECT_EQ(kind_of(error), "PeerAborted");
    EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{0});
    EXPECT_THAT(error ? error->what() : "", HasSubstr("left after joining"));
  };
  for (const Outcome& outcome : outcomes_of_ranks_in_world(settings, body))
    EXPECT_EQ(kind_of(outcome.error), "no error") << outcome.error->what();
}

/// Rank 0 leaves the first group and makes the second one while rank 2 still waits for rank 1 in the first.
TEST(GroupTable, a_second_group_of_the_same_name_is_none_with_those_who_still_make_the_first) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = {0, 1, 2};
  settings.degraded = {{.from = 1, .to = 2, .latency_factor = 2000}};
  auto body = [](Communicator& comm) -> Task<> {
    Communicator first = co_await comm.group(ranks_of(0, 1, 2), "again");
    if (comm.rank() != 0) {
      const auto error = co_await error_of_barrier(first);
      EXPECT_EQ(kind_of(error), "PeerAborted") << "rank " << comm.rank();
      EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{0});
    }
    co_await first.close();
    Communicator second = co_await comm.group(ranks_of(0, 1, 2), "again");
    co_await use_all(second, 10);
  };
  for (const Outcome& outcome : outcomes_of_ranks_in_world(settings, body))
    EXPECT_EQ(kind_of(outcome.error), "no error") << outcome.error->what();
}

TEST(GroupTable, a_rank_that_leaves_without_making_a_group_has_left_and_did_not_die) {
  auto body = [](Communicator& comm) -> Task<> {
    if (comm.rank() == 1) co_return;
    if (comm.rank() == 2) co_await comm.engine().sleep_for(std::chrono::seconds(1));
    const auto error = co_await error_of(comm.group(ranks_of(0, 1, 2), "trio"));
    EXPECT_EQ(kind_of(error), "PeerAborted");
    EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{1});
    EXPECT_THAT(error ? error->what() : "", HasSubstr("left before group 'world/trio' was made"));
  };
  run_ranks_in_world(3, body);
  run_ranks_in_world(3, body, {}, 3);
}

/// It has left the communicator that was joined, and lives on in a group.
TEST(GroupTable, a_rank_that_is_killed_while_others_make_a_group_with_it_died_though_it_left_the_first_one) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = {0, 1, 2};
  settings.dead = {{.process = 2, .step = 2'000}};
  int told = 0;
  auto body = [&](Communicator& comm) -> Task<> {
    Communicator all = co_await comm.group(ranks_of(0, 1, 2), "all");
    co_await comm.close();
    for (int steps = 0; all.rank() == 2 && steps < 10'000; ++steps)  // dead ranks go on at the very end
      co_await all.engine().sleep_for(std::chrono::milliseconds(1));
    if (all.rank() == 2) co_return;
    for (const char* name : {"meanwhile", "afterwards"}) {
      const auto error = co_await error_of(all.group(ranks_of(0, 1, 2), name));
      EXPECT_EQ(kind_of(error), "PeerDied") << name << ": " << (error ? error->what() : "");
      EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{2});
      ++told;
    }
  };
  (void)outcomes_of_ranks_in_world(settings, body);
  EXPECT_EQ(told, 4);
}

/// Its engine stood still meanwhile: what the others had said is read after its own deadline.
TEST(GroupTable, a_rank_that_comes_late_to_its_own_deadline_is_itself_the_culprit) {
  CommunicatorOptions options;
  options.timeout = std::chrono::seconds(1);
  auto body = [](Communicator& comm) -> Task<> {
    auto use = [&]() -> Task<> {
      if (comm.rank() != 1) co_await comm.engine().sleep_for(std::chrono::milliseconds(100));
      Communicator trio = co_await comm.group(ranks_of(0, 1, 2), "trio");
      co_await trio.barrier();  // to which the others on its host had come before they gave up
      co_await comm.engine().sleep_for(std::chrono::milliseconds(10));
      co_await trio.barrier();
    };
    auto stand_still = [&]() -> Task<> {
      co_await comm.engine().sleep_for(std::chrono::milliseconds(10));
      if (comm.rank() == 1) compute(comm.engine(), std::chrono::seconds(20));
    };
    co_await when_all(use(), stand_still());
  };
  for (const Rank hosts : {1U, 3U}) {
    const std::vector<Outcome> outcomes = outcomes_of_ranks_in_world(3, body, options, hosts);
    for (Rank rank = 0; rank < outcomes.size(); ++rank) {
      const std::optional<Error>& error = outcomes[rank].error;
      EXPECT_EQ(kind_of(error), "DeadlineExceeded") << "rank " << rank << " of " << hosts << " hosts";
      EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{1}) << (error ? error->what() : "");
    }
  }
}

TEST(GroupTable, errors_name_the_culprit_by_both_its_ranks) {
  auto body = [](Communicator& comm) -> Task<> {
    std::optional<Communicator> half = co_await comm.split(static_cast<int>(comm.rank() / 2));
    if (comm.rank() == 3) {
      half->abort("enough");
      co_await comm.barrier();
      co_return;
    }
    if (comm.rank() == 2) {
      const auto error = co_await error_of_barrier(*half);
      EXPECT_EQ(kind_of(error), "PeerAborted");
      EXPECT_EQ(error->culprit(), Rank{1});
      EXPECT_THAT(error->what(), HasSubstr("rank 1 (world rank 3, "));
      EXPECT_THAT(error->what(), HasSubstr("gave up before its first collective: enough"));
      EXPECT_TRUE(half->is_failed());
    } else {
      co_await use_all(*half, 10);
    }
    EXPECT_FALSE(comm.is_failed());
    co_await comm.barrier();
  };
  run_ranks_in_world(4, body);
  run_ranks_in_world(4, body, {}, 2);
}

TEST(GroupTable, a_failed_communicator_leaves_its_groups_alone_and_can_still_make_some) {
  auto body = [](Communicator& comm) -> Task<> {
    Communicator before = co_await comm.group(ranks_of(0, 1, 2), "before");
    if (comm.rank() == 0) comm.abort("for a test");
    const auto error = co_await error_of_barrier(comm);
    EXPECT_EQ(kind_of(error), "PeerAborted");
    co_await use_all(before, 1000);
    Communicator after = co_await comm.group(ranks_of(2, 0, 1), "after");
    co_await use_all(after, 1000);
  };
  run_ranks_in_world(3, body);
  run_ranks_in_world(3, body, {}, 3);
}

TEST(GroupTable, rows_and_columns_of_64_ranks) {
  auto body = [](Communicator& comm) -> Task<> {
    const int side = 8;
    const auto rank = static_cast<int>(comm.rank());
    std::optional<Communicator> row = co_await comm.split(rank / side);
    std::optional<Communicator> column = co_await comm.split(rank % side);
    const std::int64_t of_row = co_await sum_of(*row, comm.rank());
    const std::int64_t sum = co_await sum_of(*column, of_row);
    EXPECT_EQ(sum, 63 * 32);
  };
  EXPECT_EQ(run_threads(64, body, CommunicatorOptions(), 2), 0);
}

}  // namespace
}  // namespace cohort::test::groups_test
