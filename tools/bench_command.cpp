// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench_command.h>

#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tools/bench/job.h>
#include <cohort/tools/command_line.h>
#include <cohort/tools/host_arguments.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <memory>

namespace cohort {
namespace {

constexpr bench::Exercise kMessages = bench::Exercise::send_recv();
constexpr std::size_t kMostBudgetMs = 600'000;
constexpr const char* kOperationOptions = "Operation";
constexpr const char* kRankOptions = "Ranks";
constexpr const char* kMethodOptions = "Method";
constexpr const char* kOutputOptions = "Output";

constexpr const char* kBenchFooter = R"(
Examples:
  cohort bench all_reduce --ranks 2 --transport shm --min 8 --max 64M
  cohort bench all --ranks 4 --transport tcp --sizes 8,4K,1M --csv
  cohort bench all_reduce --overlap one --sizes 16M
  cohort bench all_reduce --hosts node1:2,node2:2 --max 64M --svg all_reduce.svg
  cohort bench send_recv --sizes 8,64M
  cohort bench all_reduce --threads --type int32 --op max --algorithm ring

SIZE is a number of bytes such as 8, 64K or 1M, of the largest buffer that a rank has: of the vector, of the
whole output for all_gather, of the whole input for reduce_scatter, of one message for send_recv, which goes
from rank 0 to rank 1 and back. Times are those of the slowest rank in each iteration: all ranks start at one
moment, with inputs written just before. Results are compared element by element.

In a job that a launcher has started (COHORT_RANK and COHORT_SIZE, or by mpirun, srun or torchrun) the ranks
are those of the job, on any hosts: rank 0 prints. They start by a collective of the job instead of a line in
shared memory, and are bound to no cores; how many have entered a barrier is not verified.
  cohort run -n 4 -- cohort bench all_reduce

Status: 0 when everything ran and every result was right; 1 otherwise; that of `cohort run` when a rank
fails; 2 for wrong options.)";

/// As they stand on the command line; what parsing turns into numbers comes through `options`.
struct BenchArguments {
  bench::Options options;
  std::vector<std::string> command;
  std::string collective;
  command_line::Sizes sizes;
  std::string type = "float32";
  std::string reduce = "sum";
  std::string algorithm;
  std::size_t iterations = 0;
  std::size_t warmup = 0;
  std::size_t budget_ms = 100;
  std::string timeout;
  std::size_t near_wait_ms = 0;
  std::string overlap;
  HostArguments hosts;
  bool is_csv = false;
  bool is_json = false;
  bool leaves_inputs = false;
  bool is_unchecked = false;
  bool is_unpinned = false;
};

void add_operation_options(CLI::App& bench, BenchArguments& arguments) {
  command_line::add_operator(bench, arguments.collective, "What to measure", {to_string(kMessages)});
  command_line::add_type(bench, arguments.type)->group(kOperationOptions);
  bench.add_option("--op", arguments.reduce, "How they are reduced")
      ->check(CLI::IsMember(command_line::names_of(kReduceOps)))
      ->capture_default_str()
      ->group(kOperationOptions);
  bench.add_option("--root", arguments.options.root, "Of operators that have one")
      ->type_name("RANK")
      ->capture_default_str()
      ->group(kOperationOptions);
  command_line::add_algorithm(bench, arguments.algorithm)->group(kOperationOptions);
  bench
      .add_flag("--in-place", arguments.options.is_in_place,
                "Results replace inputs (a broadcast always does)")
      ->group(kOperationOptions);
}

void add_rank_options(CLI::App& bench, BenchArguments& arguments) {
  bench.add_option("-n,--ranks", arguments.options.ranks, "How many ranks")
      ->check(CLI::Range(Rank{1}, bench::kMostRanks))
      ->type_name("COUNT")
      ->capture_default_str()
      ->group(kRankOptions);
  command_line::add_transport(bench, arguments.options.transport)->group(kRankOptions);
  add_host_arguments(bench, arguments.hosts, kRankOptions);
  bench.add_flag("--threads", arguments.options.is_in_process, "Ranks are threads of one process")
      ->group(kRankOptions);
  bench.add_flag("--shared", arguments.options.is_shared, "Buffers that peers on this host map")
      ->group(kRankOptions);
  bench
      .add_flag("--no-pin", arguments.is_unpinned, "Do not bind ranks to cores, where there is one for each")
      ->group(kRankOptions);
}

void add_method_options(CLI::App& bench, BenchArguments& arguments) {
  CLI::Option* iterations = bench.add_option("--iters", arguments.iterations, "Exactly so many iterations");
  iterations->check(CLI::Range(std::size_t{1}, bench::kMostIterations))->type_name("COUNT");
  CLI::Option* budget =
      bench.add_option("--budget-ms", arguments.budget_ms, "Iterations of a point take so long");
  budget->check(CLI::Range(std::size_t{1}, kMostBudgetMs))->type_name("MS")->capture_default_str();
  iterations->excludes(budget);
  CLI::Option* warmup =
      bench.add_option("--warmup", arguments.warmup, "Iterations before those that are timed");
  warmup->check(CLI::Range(std::size_t{0}, bench::kMostIterations))->type_name("COUNT");
  CLI::Option* rewrite =
      bench.add_flag("--no-rewrite", arguments.leaves_inputs, "Do not write inputs before each");
  CLI::Option* check = bench.add_flag("--no-check", arguments.is_unchecked, "Do not verify results");
  const auto parse_timeout = [](const std::string& text) { (void)environment::parse_duration("TIME", text); };
  CLI::Option* timeout = bench.add_option("--timeout", arguments.timeout,
                                          "End after this time, with status 124 (1 for threads)");
  timeout->check(command_line::accepts("TIME", parse_timeout));
  CLI::Option* near = bench.add_option(
      "--near-wait", arguments.near_wait_ms,
      "Print the round trip between two cores around each point, which may wait MS for near ones");
  near->check(CLI::Range(std::size_t{0}, kMostBudgetMs))->type_name("MS");
  CLI::Option* overlap = bench.add_option(
      "--overlap", arguments.overlap, "How much hides behind computing on all ranks, on one, or on a device");
  overlap->check(CLI::IsMember({"all", "one", "device"}));
  for (CLI::Option* option : {iterations, budget, warmup, rewrite, check, timeout, near, overlap})
    option->group(kMethodOptions);
}

void add_output_options(CLI::App& bench, BenchArguments& arguments) {
  CLI::Option* csv = bench.add_flag("--csv", arguments.is_csv, "Rows as bench/peers prints them");
  CLI::Option* json = bench.add_flag("--json", arguments.is_json, "A JSON object a line");
  csv->excludes(json);
  bench.add_option("--svg", arguments.options.picture, "Draw a chart of it into this file, too")
      ->type_name("FILE")
      ->group(kOutputOptions);
  for (CLI::Option* option : {csv, json}) option->group(kOutputOptions);
}

/// Those that are asked for by name, or all that there are for so many ranks and that have the algorithm.
std::vector<bench::Exercise> exercises_of(const BenchArguments& arguments) {
  if (arguments.collective == to_string(kMessages)) return {kMessages};
  const std::vector<Operator> operators = command_line::operators_of(arguments.collective);
  if (operators.size() == 1) return {operators.front()};
  std::vector<bench::Exercise> exercises;
  for (const Operator op : operators)
    if (arguments.algorithm.empty() || AlgorithmTable::library().find(op, arguments.algorithm) != nullptr)
      exercises.emplace_back(op);
  if (arguments.algorithm.empty() && arguments.options.ranks > 1) exercises.push_back(kMessages);
  return exercises;
}

/// That of the job around this process, if there is one.
void take_ranks(const CLI::App& bench, bench::Options& options) {
  const std::optional<Rank> ranks = bench::ranks_of_job_around();
  if (!ranks) return;
  if (bench.count("--ranks") != 0 && options.ranks != *ranks)
    throw CLI::ValidationError(
        "bench", fmt::format("--ranks {} in a job of {} (COHORT_SIZE): leave it out, or unset COHORT_RANK",
                             options.ranks, *ranks));
  options.ranks = *ranks;
  options.is_joined = true;
}

/// Those on hosts are so many as these have places, unless it is said.
void take_hosts(const CLI::App& bench, BenchArguments& arguments) {
  if (!arguments.hosts.are_given() || arguments.options.is_joined) return;
  const Rank ranks = bench.count("--ranks") != 0 ? arguments.options.ranks : 0;
  arguments.options.hosts = hosts_from(arguments.hosts, ranks);
  arguments.options.ranks = count_of_ranks(*arguments.options.hosts);
}

bench::Options finish(const CLI::App& bench, BenchArguments& arguments) {
  take_ranks(bench, arguments.options);
  take_hosts(bench, arguments);
  bench::Options options = arguments.options;
  options.exercises = exercises_of(arguments);
  options.type = *parse_data_type(arguments.type);
  options.reduce = *parse_reduce_op(arguments.reduce);
  options.algorithm = arguments.algorithm;
  options.sizes_bytes = arguments.sizes.bytes();
  options.are_sizes_listed = !arguments.sizes.single.empty();
  if (bench.count("--iters") != 0) options.iterations = arguments.iterations;
  if (bench.count("--warmup") != 0) options.warmup = arguments.warmup;
  options.budget = std::chrono::milliseconds(arguments.budget_ms);
  if (!arguments.timeout.empty())
    options.timeout = environment::parse_duration("--timeout", arguments.timeout);
  if (bench.count("--near-wait") != 0) options.near_wait = std::chrono::milliseconds(arguments.near_wait_ms);
  options.rewrites_inputs = !arguments.leaves_inputs;
  options.checks_results = !arguments.is_unchecked;
  // Threads that compute would inherit the one core.
  options.pins_ranks = !arguments.is_unpinned && arguments.overlap.empty();
  const std::map<std::string, bench::Computing> computing = {
      {"all", bench::Computing::all}, {"one", bench::Computing::one}, {"device", bench::Computing::device}};
  if (!arguments.overlap.empty()) options.overlap = computing.at(arguments.overlap);
  if (arguments.is_csv) options.format = bench::Format::csv;
  if (arguments.is_json) options.format = bench::Format::json;
  return options;
}

}  // namespace

void add_bench_command(CLI::App& app, std::vector<std::string> command, int& status) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure collectives between ranks on this host, or of a job");
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->command = std::move(command);
  add_operation_options(*bench, *arguments);
  command_line::add_sizes(*bench, arguments->sizes);
  add_rank_options(*bench, *arguments);
  add_method_options(*bench, *arguments);
  add_output_options(*bench, *arguments);
  bench->footer(kBenchFooter);
  bench->callback([bench, arguments, &status] {
    const bench::Options options = finish(*bench, *arguments);
    try {
      options.check();
    } catch (const Error& error) {
      throw CLI::ValidationError("bench", std::string(error.message()));
    }
    status = bench::run_job(options, arguments->command);
  });
}

}  // namespace cohort
