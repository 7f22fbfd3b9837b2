// SPDX-License-Identifier: Apache-2.0
// `cohort bench` as a user starts it: the program itself, its output and its status.
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/tests/support/command.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace cohort::bench_command_test {
namespace {

using cohort::test::split;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Outcome = cohort::test::CommandOutcome;

constexpr const char* kHeader = "peer,transport,collective,ranks,bytes,min_us,median_us,p99_us,iters";

Outcome bench(const std::string& arguments, bool and_errors = false) {
  return cohort::test::run_cohort("bench " + arguments, and_errors);
}

struct Case {
  const char* name;
  int ranks;
  const char* options;
  const char* label;
  const char* algorithm = "";  ///< that is asked for
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

/// Operators with data that have that algorithm; all, and messages between two ranks, if none is asked for.
std::size_t exercises_with(std::string_view algorithm, int ranks) {
  const auto all = cohort::all_operators();
  const auto operators = std::count_if(all.begin(), all.end(), [&](cohort::Operator op) {
    const bool has_it = algorithm.empty() || cohort::AlgorithmTable::library().find(op, algorithm) != nullptr;
    return op->has_data && has_it;
  });
  const bool has_messages = algorithm.empty() && ranks > 1;
  return static_cast<std::size_t>(operators) + (has_messages ? 1 : 0);
}

class Bench : public ::testing::TestWithParam<Case> {};

TEST_P(Bench, measures_and_verifies_every_collective) {
  const auto [name, ranks, options, label, algorithm] = GetParam();
  const Outcome outcome = bench("all --sizes 1,8,4K,100001 --iters 3 --warmup 1 --csv --timeout 60 --ranks " +
                                std::to_string(ranks) + " " + options);
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  ASSERT_EQ(outcome.lines.size(), 1U + 1U + exercises_with(algorithm, ranks) * 4U) << outcome.text();
  EXPECT_EQ(outcome.lines[0], kHeader);
  std::vector<std::string> points;
  for (std::size_t i = 1; i < outcome.lines.size(); ++i) {
    const std::vector<std::string> fields = split(outcome.lines[i], ',');
    ASSERT_EQ(fields.size(), 9U) << outcome.lines[i];
    EXPECT_EQ(fields[0], "cohort");
    EXPECT_EQ(fields[1], label);
    EXPECT_EQ(fields[3], std::to_string(ranks));
    EXPECT_LE(std::stod(fields[5]), std::stod(fields[6]));
    EXPECT_LE(std::stod(fields[6]), std::stod(fields[7]));
    EXPECT_EQ(fields[8], "3");
    points.push_back(fields[2] + " " + fields[4]);
  }
  EXPECT_THAT(points, ::testing::IsSupersetOf({"barrier 0", "broadcast 1", "all_reduce 8", "all_gather 4096",
                                               "reduce_scatter 100001"}));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Bench,
    ::testing::Values(
        Case{"one_rank", 1, "--transport shm", "shm"}, Case{"shm_2", 2, "--transport shm", "shm"},
        Case{"shm_3", 3, "--transport shm", "shm"}, Case{"tcp_2", 2, "--transport tcp", "tcp"},
        Case{"tcp_3", 3, "--transport tcp", "tcp"},
        Case{"shared_2", 2, "--transport shm --shared", "shm-shared"},
        Case{"threads_3", 3, "--threads --transport shm", "shm-threads"},
        Case{"tcp_threads_2", 2, "--threads --transport tcp", "tcp-threads"},
        Case{"in_place_3", 3, "--transport shm --in-place --no-pin", "shm"},
        Case{"int64_max_tree_3", 3, "--type int64 --op max --algorithm tree --transport tcp", "tcp", "tree"},
        Case{"avg_int32_root_2", 2, "--type int32 --op avg --root 1 --transport shm", "shm"},
        Case{"bfloat16_avg_3", 3, "--type bfloat16 --op avg --transport shm", "shm"},
        Case{"float8_prod_2", 2, "--type float8_e5m2 --op prod --transport tcp", "tcp"},
        Case{"uint8_xor_3", 3, "--type uint8 --op bit_xor --shared --transport shm", "shm-shared"},
        Case{"scaled_sum_2", 2, "--type float16 --op scaled_sum --transport shm", "shm"},
        Case{"not_rewritten_2", 2, "--no-rewrite --in-place --transport shm", "shm"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(BenchOutput, near_wait_tells_where_the_cores_were) {
  const Outcome outcome = bench("all_reduce --ranks 3 --sizes 8,4K --budget-ms 1 --csv --near-wait 1");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  ASSERT_EQ(outcome.lines.size(), 3U) << outcome.text();
  EXPECT_EQ(outcome.lines[0], std::string(kHeader) + ",rtt_before_ns,rtt_after_ns");
  for (std::size_t i = 1; i < outcome.lines.size(); ++i) {
    const std::vector<std::string> fields = split(outcome.lines[i], ',');
    ASSERT_EQ(fields.size(), 11U) << outcome.lines[i];
    const bool has_two_cores = std::thread::hardware_concurrency() > 1;
    EXPECT_EQ(std::stod(fields[9]) > 0, has_two_cores) << outcome.lines[i];
    EXPECT_EQ(std::stod(fields[10]) > 0, has_two_cores) << outcome.lines[i];
  }
}

TEST(BenchOutput, a_picture_that_cannot_be_written_is_told_before_anything_is_measured) {
  const Outcome outcome = bench("all_reduce --ranks 2 --sizes 8 --iters 1 --svg /no/such/folder/file", true);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text(), HasSubstr("/no/such/folder/file: cannot be written: No such file"));
  EXPECT_THAT(outcome.text(), ::testing::Not(HasSubstr("Wrong elements")));
}

TEST(BenchOutput, overlap_has_a_row_for_each_size_whoever_computes) {
  for (const std::string computing : {"all", "one", "device"}) {
    const Outcome outcome = bench("all_reduce --ranks 2 --sizes 8,64K --csv --overlap " + computing);
    ASSERT_EQ(outcome.status, 0) << outcome.text();
    ASSERT_EQ(outcome.lines.size(), 3U) << outcome.text();
    EXPECT_THAT(outcome.lines[1], HasSubstr("engine and pool," + computing + ",2,8,"));
    EXPECT_THAT(outcome.lines[2], HasSubstr("engine and pool," + computing + ",2,65536,"));
  }
  EXPECT_NE(bench("broadcast --overlap all", true).status, 0);
}

TEST(BenchOutput, messages_go_between_two_ranks_and_have_no_algorithm) {
  const Outcome outcome = bench("send_recv --ranks 3 --sizes 8,1M --budget-ms 1 --csv");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  ASSERT_EQ(outcome.lines.size(), 3U) << outcome.text();
  EXPECT_THAT(outcome.lines[2], HasSubstr(",send_recv,3,1048576,"));
  const Outcome alone = bench("send_recv --ranks 1", true);
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.text(), HasSubstr("send_recv is between two ranks"));
  const Outcome by_ring = bench("send_recv --algorithm ring", true);
  EXPECT_EQ(by_ring.status, 2);
  EXPECT_THAT(by_ring.text(), HasSubstr("send_recv has no algorithms"));
}

TEST(BenchOutput, table_has_a_row_for_each_size_and_an_average) {
  const Outcome outcome =
      bench("all_reduce --ranks 2 --transport shm --min 8 --max 128 --factor 4 --iters 5");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  std::vector<std::string> sizes;
  for (const std::string& line : outcome.lines) {
    if (line.front() == '#') continue;
    const std::vector<std::string> fields = split(line, ' ');
    ASSERT_EQ(fields.size(), 10U) << line;
    EXPECT_EQ(fields[2], "float32");
    EXPECT_EQ(fields[3], "sum");
    EXPECT_EQ(fields[8], "0");
    sizes.push_back(fields[0]);
  }
  EXPECT_THAT(sizes, ::testing::ElementsAre("8", "32", "128"));
  EXPECT_THAT(outcome.text(),
              AllOf(HasSubstr("algbw"), HasSubstr("busbw"), HasSubstr("#wrong"),
                    HasSubstr("# Avg bus bandwidth"), HasSubstr("# Wrong elements    : 0 OK")));
}

TEST(BenchOutput, sizes_that_are_the_same_in_elements_are_one) {
  const Outcome outcome = bench("broadcast --ranks 2 --transport shm --min 1 --max 16 --iters 5 --csv");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_THAT(outcome.lines,
              ::testing::ElementsAre(HasSubstr("bytes"), HasSubstr(",broadcast,2,4,"),
                                     HasSubstr(",broadcast,2,8,"), HasSubstr(",broadcast,2,16,")));
}

TEST(BenchOutput, json_lines_can_be_parsed) {
  const Outcome outcome = bench("broadcast --ranks 2 --sizes 8,64 --iters 5 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  ASSERT_EQ(outcome.lines.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(outcome.lines[1])["bytes"], 64);
}

TEST(BenchOutput, the_budget_bounds_the_iterations) {
  const Outcome outcome = bench("barrier --ranks 2 --budget-ms 10 --warmup 0 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  ASSERT_EQ(outcome.lines.size(), 1U);
  EXPECT_GE(nlohmann::json::parse(outcome.lines[0])["iters"], 3);
}

Outcome bench_in_job(const std::string& launcher, const std::string& arguments) {
  const std::string program = std::string(COHORT_TEST_BIN_DIR) + "/cohort bench " + arguments;
  return cohort::test::run_cohort("run --no-prefix " + launcher + program + "'", true);
}

TEST(BenchInJob, measures_and_verifies_between_the_ranks_of_the_job_and_rank_0_alone_prints) {
  const std::string two_hosts = "-n 4 -- sh -c 'COHORT_HOST_ID=h$((COHORT_RANK/2)) exec ";
  const Outcome outcome = bench_in_job(two_hosts, "all --sizes 8,64K --iters 3 --warmup 1 --csv");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  ASSERT_EQ(outcome.lines.size(), 1U + 1U + exercises_with("", 4) * 2U) << outcome.text();
  EXPECT_EQ(outcome.lines[0], kHeader);
  for (std::size_t i = 1; i < outcome.lines.size(); ++i) {
    const std::vector<std::string> fields = split(outcome.lines[i], ',');
    ASSERT_EQ(fields.size(), 9U) << outcome.lines[i];
    EXPECT_EQ(fields[1], "shm+tcp");
    EXPECT_EQ(fields[3], "4");
    EXPECT_GT(std::stod(fields[6]), 0);
    EXPECT_EQ(fields[8], "3");
  }
}

TEST(BenchInJob, says_which_ranks_are_where_and_what_it_does_not_verify) {
  const Outcome outcome =
      bench_in_job("-n 3 -- sh -c 'COHORT_HOST_ID=h$((COHORT_RANK/2)) exec ", "barrier --iters 3");
  ASSERT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_THAT(outcome.lines[0], ::testing::MatchesRegex("# cohort [0-9.]+: ranks 0, 1 on .+; rank 2 on .+"));
  EXPECT_THAT(outcome.text(), HasSubstr("N/A"));
}

TEST(BenchInJob, another_number_of_ranks_and_threads_are_refused) {
  const Outcome ranks = bench_in_job("-n 2 -- sh -c 'exec ", "all_reduce --ranks 3");
  EXPECT_EQ(ranks.status, 2) << ranks.text();
  EXPECT_THAT(ranks.text(), HasSubstr("--ranks 3 in a job of 2 (COHORT_SIZE)"));
  const Outcome threads = bench_in_job("-n 2 -- sh -c 'exec ", "all_reduce --threads");
  EXPECT_EQ(threads.status, 2) << threads.text();
  EXPECT_THAT(threads.text(), HasSubstr("is a rank already"));
}

TEST(BenchInJob, ends_after_its_time) {
  const Outcome outcome =
      bench_in_job("-n 2 -- sh -c 'exec ", "all_reduce --sizes 64M --budget-ms 600000 --timeout 0.5");
  EXPECT_EQ(outcome.status, 1) << outcome.text();
  EXPECT_THAT(outcome.text(), HasSubstr("DeadlineExceeded"));
}

struct Mistake {
  const char* name;
  const char* arguments;
  std::vector<std::string> told;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class BenchMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(BenchMistake, is_told_with_what_would_be_right) {
  const Outcome outcome = bench(GetParam().arguments, true);
  EXPECT_EQ(outcome.status, 2);
  for (const std::string& word : GetParam().told) EXPECT_THAT(outcome.text(), HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, BenchMistake,
    ::testing::Values(Mistake{"no_collective", "", {"collective"}},
                      Mistake{"collective", "reduce_all", {"reduce_all", "all_reduce", "barrier"}},
                      Mistake{"type", "all_reduce --type half", {"half", "float32", "int64"}},
                      Mistake{"reduction", "all_reduce --op mean", {"mean", "avg", "prod"}},
                      Mistake{"algorithm", "all_reduce --algorithm bush", {"bush", "mesh", "ring"}},
                      Mistake{"transport", "all_reduce --transport ib", {"ib", "shm", "tcp"}},
                      Mistake{"size", "all_reduce --min 8Q", {"8Q", "64K"}},
                      Mistake{"sizes", "all_reduce --sizes 8,0", {"0", "1"}},
                      Mistake{"no_size", "all_reduce --sizes 8,,9", {"--sizes", "SIZE=''"}},
                      Mistake{"order", "all_reduce --min 64 --max 8", {"--min", "--max"}},
                      Mistake{"root", "broadcast --root 2 --ranks 2", {"--root 2", "0 to 1"}},
                      Mistake{"formats", "all_reduce --csv --json", {"--csv", "--json"}},
                      Mistake{"ranks", "all_reduce --ranks 0", {"1", "256"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(BenchFailure, an_algorithm_that_cannot_run_names_those_that_can) {
  const Outcome outcome = bench("all_reduce --algorithm direct --transport tcp --sizes 8 --timeout 30", true);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text(), AllOf(HasSubstr("'direct'"), HasSubstr("ring")));
}

TEST(BenchFailure, a_run_over_its_time_ends_with_124) {
  const Outcome outcome = bench("all_reduce --ranks 2 --sizes 64M --budget-ms 600000 --timeout 0.5", true);
  EXPECT_EQ(outcome.status, 124) << outcome.text();
}

TEST(BenchFailure, threads_over_their_time_end_too) {
  const Outcome outcome = bench("all_reduce --threads --sizes 64M --budget-ms 600000 --timeout 0.5", true);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text(), HasSubstr("DeadlineExceeded"));
}

}  // namespace
}  // namespace cohort::bench_command_test
