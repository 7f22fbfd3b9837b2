// SPDX-License-Identifier: Apache-2.0
// Wrong use is an answer, not a hang: every rank gets an error that names rank, field and both values.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace cohort::misuse_test {
namespace {

using test::Outcome;
using test::outcomes_of_ranks_in_world;
using testing::HasSubstr;

constexpr Rank kOddOne = 2;

class Misuse : public testing::TestWithParam<std::tuple<const char*, std::size_t>> {
 protected:
  /// Elements that make the call small or large.
  [[nodiscard]] static std::size_t count() { return std::get<1>(GetParam()); }

  std::vector<Outcome> outcomes(const RankFunction& function, Rank ranks = 4) {
    CommunicatorOptions options;
    const std::string_view transport = std::get<0>(GetParam());
    const bool is_mixed = transport == "shm_and_tcp";  // two hosts with two ranks each
    if (!is_mixed) options.transport = transport;
    options.buffer_bytes = 64 * 1024;
    options.is_isolated = true;
    options.timeout = std::chrono::seconds(20);
    return outcomes_of_ranks_in_world(ranks, function, std::move(options), is_mixed ? 2 : 1);
  }

  /// Everybody got a Mismatch with that culprit and these words.
  static void expect_mismatch(const std::vector<Outcome>& outcomes, Rank culprit,
                              const std::vector<std::string>& words) {
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      ASSERT_TRUE(outcomes[rank].error) << "rank " << rank << " got no error";
      const Error& error = *outcomes[rank].error;
      EXPECT_EQ(error.kind(), ErrorKind::Mismatch) << "rank " << rank << ": " << error.what();
      EXPECT_EQ(error.culprit(), culprit) << "rank " << rank << ": " << error.what();
      for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word)) << "rank " << rank;
    }
  }
};

TEST_P(Misuse, different_count_names_rank_and_both_counts) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(comm.rank() == kOddOne ? count() + 1 : count());
    co_await comm.all_reduce(std::span<float>(data), ReduceOp::sum);
  };
  expect_mismatch(outcomes(body), kOddOne,
                  {"count differs", fmt::format("rank 2 has {}", count() + 1),
                   fmt::format("ranks 0, 1, 3 have {}", count())});
}

TEST_P(Misuse, different_type_names_rank_and_both_types) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> floats(count());
    std::vector<std::int32_t> ints(count());
    if (comm.rank() == kOddOne)
      co_await comm.all_reduce(std::span<std::int32_t>(ints), ReduceOp::sum);
    else
      co_await comm.all_reduce(std::span<float>(floats), ReduceOp::sum);
  };
  expect_mismatch(outcomes(body), kOddOne,
                  {"data type differs", "rank 2 has int32", "ranks 0, 1, 3 have float32"});
}

TEST_P(Misuse, different_reduction_names_rank_and_both_reductions) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    const ReduceOp op = comm.rank() == kOddOne ? ReduceOp::max : ReduceOp::sum;
    co_await comm.all_reduce(std::span<float>(data), op);
  };
  expect_mismatch(outcomes(body), kOddOne, {"reduction differs", "rank 2 has max", "ranks 0, 1, 3 have sum"});
}

TEST_P(Misuse, different_root_names_rank_and_both_roots) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    const Rank root = comm.rank() == kOddOne ? 3 : 1;
    co_await comm.broadcast(std::span<float>(data), root);
  };
  expect_mismatch(outcomes(body), kOddOne, {"root differs", "rank 2 has 3", "ranks 0, 1, 3 have 1"});
}

TEST_P(Misuse, two_ranks_that_each_wait_for_the_others_root_are_told) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    co_await comm.broadcast(std::span<float>(data), 1 - comm.rank());
  };
  expect_mismatch(outcomes(body, 2), 1, {"root differs", "rank 0 has 1", "rank 1 has 0"});
}

TEST_P(Misuse, different_operator_names_rank_and_both_operators) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    if (comm.rank() == kOddOne)
      co_await comm.barrier();
    else
      co_await comm.all_reduce(std::span<float>(data), ReduceOp::sum);
  };
  expect_mismatch(outcomes(body), kOddOne,
                  {"operator differs", "rank 2 has barrier", "ranks 0, 1, 3 have all_reduce"});
}

TEST_P(Misuse, a_split_is_no_all_gather_of_as_many_bytes) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::array<std::int32_t, 2> own = {7, 8};
    std::vector<std::int32_t> all(own.size() * comm.size());
    if (comm.rank() == kOddOne)
      co_await comm.all_gather(own, all);
    else
      (void)co_await comm.split(0);
  };
  expect_mismatch(outcomes(body), kOddOne,
                  {"operator differs", "rank 2 has all_gather", "ranks 0, 1, 3 have split"});
}

TEST_P(Misuse, different_count_of_a_broadcast_reaches_its_root_too) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(comm.rank() == kOddOne ? count() + 1 : count());
    co_await comm.broadcast(std::span<float>(data), 0);
    co_await comm.barrier();
  };
  expect_mismatch(outcomes(body), kOddOne, {"count differs", "rank 2 has"});
}

TEST_P(Misuse, a_rank_that_does_not_call_is_named_at_the_deadline) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    if (comm.rank() == kOddOne) {
      // Busy elsewhere for longer than the others wait.
      while (!comm.is_failed()) co_await comm.engine().sleep_for(std::chrono::milliseconds(5));
      throw Error(comm.failure());
    }
    auto call =
        comm.all_reduce(std::span<float>(data), ReduceOp::sum).with_deadline(std::chrono::milliseconds(400));
    co_await std::move(call);
  };
  for (const Outcome& outcome : outcomes(body)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::DeadlineExceeded) << outcome.error->what();
    EXPECT_EQ(outcome.error->culprit(), kOddOne) << outcome.error->what();
    EXPECT_THAT(outcome.error->what(), HasSubstr("not called so far by rank 2"));
  }
}

TEST_P(Misuse, a_rank_that_leaves_early_is_named) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    co_await comm.barrier();
    if (comm.rank() == kOddOne) co_return;
    co_await comm.all_reduce(std::span<float>(data), ReduceOp::sum);
  };
  const std::vector<Outcome> all = outcomes(body);
  for (Rank rank = 0; rank < all.size(); ++rank) {
    if (rank == kOddOne) continue;
    ASSERT_TRUE(all[rank].error);
    EXPECT_EQ(all[rank].error->kind(), ErrorKind::PeerAborted) << all[rank].error->what();
    EXPECT_EQ(all[rank].error->culprit(), kOddOne);
  }
}

TEST_P(Misuse, a_rank_that_throws_is_named_with_its_reason) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    co_await comm.barrier();
    if (comm.rank() == kOddOne) throw std::runtime_error("out of coffee");
    co_await comm.all_reduce(std::span<float>(data), ReduceOp::sum);
  };
  const std::vector<Outcome> all = outcomes(body);
  for (Rank rank = 0; rank < all.size(); ++rank) {
    if (rank == kOddOne) continue;
    ASSERT_TRUE(all[rank].error);
    EXPECT_EQ(all[rank].error->kind(), ErrorKind::PeerAborted) << all[rank].error->what();
    EXPECT_THAT(all[rank].error->what(), HasSubstr("out of coffee"));
  }
}

TEST_P(Misuse, wrong_arguments_of_one_rank_alone_are_told_to_all_with_its_sizes) {
  const std::size_t share = count();
  auto body = [&](Communicator& comm) -> Task<> {
    const std::size_t whole = share * comm.size() - (comm.rank() == kOddOne ? 1 : 0);
    std::vector<float> in(whole);
    std::vector<float> out(share);
    co_await comm.barrier();
    co_await comm.reduce_scatter(std::span<const float>(in), std::span<float>(out), ReduceOp::sum);
  };
  const std::vector<Outcome> all = outcomes(body);
  for (Rank rank = 0; rank < all.size(); ++rank) {
    ASSERT_TRUE(all[rank].error) << "rank " << rank << " got no error";
    const Error& error = *all[rank].error;
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("reduce_scatter of {} elements cannot be split evenly over 4 ranks",
                                      share * 4 - 1)));
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("pad the input with 1 neutral elements to {}", share * 4)));
    if (rank == kOddOne) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
      continue;
    }
    EXPECT_EQ(error.kind(), ErrorKind::PeerAborted) << error.what();
    EXPECT_EQ(error.culprit(), kOddOne);
    EXPECT_THAT(error.what(), HasSubstr("rank 2 ("));
  }
}

TEST_P(Misuse, a_cancelled_collective_ends_everywhere_and_the_canceller_is_named) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count());
    co_await comm.barrier();
    if (comm.rank() == kOddOne) co_await comm.engine().sleep_for(std::chrono::seconds(10));
    Task<> call = comm.all_reduce(std::span<float>(data), ReduceOp::sum);
    if (comm.rank() != 0) co_await call;
    CancelScope* around = co_await current_scope();
    CancelScope scope(around);
    scope.set_deadline(comm.engine(), comm.engine().now() + std::chrono::milliseconds(50));
    Task<> inside = with_scope(scope, std::move(call));
    co_await inside;
  };
  auto impatient = [&](Communicator& comm) -> Task<> {
    if (comm.rank() != kOddOne) {
      co_await body(comm);
      co_return;
    }
    co_await comm.barrier();
    while (!comm.is_failed()) co_await comm.engine().sleep_for(std::chrono::milliseconds(5));
    throw Error(comm.failure());
  };
  // On a busy machine the time may be over before rank 0's call has begun: then it leaves, and the others
  // hear of that.
  for (const Outcome& outcome : outcomes(impatient)) {
    ASSERT_TRUE(outcome.error);
    const ErrorKind kind = outcome.error->kind();
    EXPECT_TRUE(kind == ErrorKind::DeadlineExceeded || kind == ErrorKind::PeerAborted)
        << outcome.error->what();
  }
}

TEST_P(Misuse, a_call_in_a_scope_that_is_cancelled_already_is_not_made) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(count(), 1.0F);
    auto all_reduce = [&]() -> Task<> { co_await comm.all_reduce(std::span<float>(data), ReduceOp::sum); };
    CancelScope scope;
    scope.cancel();
    std::string told;
    try {
      co_await with_scope(scope, all_reduce());
    } catch (const Error& error) {
      told = to_string(error.kind());
    }
    EXPECT_EQ(told, "Cancelled");
    EXPECT_EQ(data[0], 1.0F);
    co_await all_reduce();  // and the communicator still works
    EXPECT_EQ(data[0], static_cast<float>(comm.size()));
  };
  for (const Outcome& outcome : outcomes(body, 2)) EXPECT_FALSE(outcome.error) << outcome.error->what();
}

TEST_P(Misuse, a_failed_communicator_gives_every_later_call_the_same_cause) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(comm.rank() == kOddOne ? count() + 1 : count());
    std::string first;
    try {
      co_await comm.all_reduce(std::span<float>(data), ReduceOp::sum);
    } catch (const Error& error) {
      first = error.what();
    }
    try {
      co_await comm.barrier();
    } catch (const Error& error) {
      EXPECT_EQ(first, error.what());
      throw;
    }
  };
  expect_mismatch(outcomes(body), kOddOne, {"count differs"});
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Misuse,
                         testing::Combine(testing::Values("shm", "tcp", "shm_and_tcp"),
                                          testing::Values(std::size_t{3}, std::size_t{50'000})),
                         [](const auto& test) {
                           return fmt::format("{}_{}_elements", std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

TEST(Arguments, reduce_scatter_that_is_not_divisible_says_how_to_pad) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> in(10);
    std::vector<float> out(2);
    try {
      co_await comm.reduce_scatter(std::span<const float>(in), std::span<float>(out), ReduceOp::sum);
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("pad the input with 2"));
      EXPECT_THAT(error.what(), HasSubstr("to 12"));
    }
    co_await comm.barrier();  // and the communicator still works
  };
  test::run_ranks(4, body);
}

TEST(Arguments, only_the_root_of_a_reduce_needs_an_output_and_may_give_its_input) {
  auto body = [](Communicator& comm) -> Task<> {
    constexpr Rank kRoot = 1;
    std::vector<float> in(100, static_cast<float>(comm.rank() + 1));
    std::vector<float> out(comm.rank() == kRoot ? in.size() : 0);
    co_await comm.reduce(std::span<const float>(in), std::span<float>(out), ReduceOp::sum, kRoot);
    EXPECT_EQ(in.back(), static_cast<float>(comm.rank() + 1));
    const std::vector<float> expected(in.size(), 6);
    EXPECT_TRUE(comm.rank() != kRoot || out == expected);
    co_await comm.reduce(std::span<float>(in), ReduceOp::max, kRoot);
    EXPECT_EQ(in.back(), comm.rank() == kRoot ? 3 : static_cast<float>(comm.rank() + 1));
  };
  test::run_ranks(3, body);
}

TEST_P(Misuse, different_lists_of_counts_name_rank_and_operator) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::size_t> counts(comm.size(), count());
    if (comm.rank() == kOddOne) ++counts.back();  // of a block that is not its own
    std::vector<float> in(counts[comm.rank()]);
    std::vector<float> out(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    co_await comm.all_gather_v(std::span<const float>(in), std::span<float>(out), counts);
  };
  expect_mismatch(outcomes(body), kOddOne,
                  {"the count of rank 3 differs", "rank 2 has a list", "ranks 0, 1, 3 have a list"});
}

TEST_P(Misuse, different_matrices_of_counts_name_giver_and_taker) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::size_t> matrix(comm.size() * comm.size(), count());
    if (comm.rank() == kOddOne) ++matrix[1 * comm.size() + 3];
    std::vector<float> data(comm.size() * count());
    std::vector<float> out(data.size());
    co_await comm.all_to_all_vc(std::span<const float>(data), std::span<float>(out), matrix);
  };
  expect_mismatch(outcomes(body), kOddOne, {"the count of what rank 1 gives to rank 3 differs"});
}

TEST_P(Misuse, lists_with_several_other_counts_are_told_so) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::size_t> counts(comm.size(), count());
    if (comm.rank() == kOddOne) counts = {count() + 2, count() - 1, count(), count() - 1};
    std::vector<float> in(counts[comm.rank()]);
    std::vector<float> out(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    co_await comm.all_gather_v(std::span<const float>(in), std::span<float>(out), counts);
  };
  expect_mismatch(outcomes(body), kOddOne, {"more than one of the counts differs", "rank 2 has a list"});
}

TEST_P(Misuse, different_count_of_a_scatter_reaches_every_rank) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::size_t block = comm.rank() == kOddOne ? count() + 1 : count();
    std::vector<float> in(comm.rank() == 0 ? block * comm.size() : 0);
    std::vector<float> out(block);
    co_await comm.scatter(std::span<const float>(in), std::span<float>(out), 0);
  };
  expect_mismatch(outcomes(body), kOddOne, {"count differs", "rank 2 has"});
}

TEST_P(Misuse, different_count_of_a_scan_reaches_the_first_rank_too) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(comm.rank() == kOddOne ? count() + 1 : count());
    co_await comm.scan(std::span<float>(data), ReduceOp::sum);
  };
  expect_mismatch(outcomes(body), kOddOne, {"count differs", "rank 2 has"});
}

TEST_P(Misuse, a_rank_that_gives_another_count_than_is_expected_names_both) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::vector<std::size_t> expected(comm.size(), count());
    std::vector<std::size_t> given = expected;
    given[1] += comm.rank() == kOddOne ? 1 : 0;
    std::vector<float> in(std::accumulate(given.begin(), given.end(), std::size_t{0}));
    std::vector<float> out(count() * comm.size());
    co_await comm.all_to_all_v(std::span<const float>(in), given, std::span<float>(out), expected);
  };
  expect_mismatch(outcomes(body), kOddOne,
                  {fmt::format("rank 2 gives rank 1 {} elements, which expects {}", count() + 1, count())});
}

TEST_P(Misuse, ranks_that_do_not_all_call_all_to_all_v_are_told) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::vector<std::size_t> counts(comm.size(), count());
    std::vector<float> in(count() * comm.size()), out(in.size());
    if (comm.rank() == kOddOne)
      co_await comm.all_to_all(in, out);
    else
      co_await comm.all_to_all_v(in, counts, out, counts);
  };
  expect_mismatch(outcomes(body), kOddOne,
                  {"operator differs", "rank 2 has all_to_all,", "ranks 0, 1, 3 have all_to_all_v;"});
}

TEST(Arguments, wrong_shapes_roots_and_overlaps_are_refused_at_the_call) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> a(8);
    std::vector<float> b(8);
    const std::span<float> whole(a);
    EXPECT_THROW(
        (void)comm.all_reduce(std::span<const float>(a), std::span<float>(b).first(7), ReduceOp::sum), Error);
    EXPECT_THROW((void)comm.all_gather(std::span<const float>(a), std::span<float>(b)), Error);
    EXPECT_THROW((void)comm.broadcast(whole, comm.size()), Error);
    EXPECT_THROW((void)comm.reduce(whole, ReduceOp::sum, comm.size()), Error);
    const Rank me = comm.rank();
    EXPECT_THROW(
        (void)comm.reduce(std::span<const float>(a), std::span<float>(b).first(7), ReduceOp::sum, me), Error);
    EXPECT_THROW(
        (void)comm.all_reduce(std::span<const float>(whole.first(4)), whole.subspan(2, 4), ReduceOp::sum),
        Error);
    co_await comm.barrier();
  };
  test::run_ranks(2, body);
}

TEST(Arguments, an_algorithm_that_cannot_run_here_is_refused_with_the_possible_ones) {
  CommunicatorOptions options;
  options.transport = "tcp";
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(8);
    try {
      (void)comm.all_reduce(std::span<float>(data), ReduceOp::sum).with_algorithm("direct");
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("choose one of: one_shot, tree, recursive_doubling, mesh, ring"));
    }
    co_await comm.barrier();
  };
  test::run_ranks(2, body, std::move(options));
}

TEST(Arguments, receiving_from_anybody_where_nobody_else_is_says_so_at_once) {
  auto body = [](Communicator& comm) -> Task<> {
    std::array<float, 2> data{};
    EXPECT_THROW((void)comm.recv_any(data), Error);
    try {
      (void)comm.recv_any(data, 3);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("there is no other rank that could send it"));
    }
    co_await comm.barrier();
  };
  test::run_ranks(1, body);
}

Task<> meet_in_a_phase(Exec& x, Barrier) { co_await x.phase(); }

TEST(ArgumentsDeathTest, a_schedule_over_links_that_meets_in_a_phase_is_told_what_it_needs) {
  const Algorithm<Barrier> algorithm = {.name = "phase", .needs = links_to_all, .schedule = meet_in_a_phase};
  auto body = [](Communicator& comm) -> Task<> { co_await comm.barrier().with_algorithm("phase"); };
  auto run = [&] {
    CommunicatorOptions options;
    options.transport = "tcp";
    options.algorithms.push_back(algorithm);
    test::run_ranks(2, body, std::move(options));
  };
  EXPECT_DEATH(run(), "a schedule over links meets in a phase, which needs Scope::node");
}

}  // namespace
}  // namespace cohort::misuse_test
