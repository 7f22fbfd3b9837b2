// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench_command.h>

#include <cohort/engine/environment.h>
#include <cohort/engine/error.h>
#include <cohort/tools/bench/job.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <map>
#include <memory>

namespace cohort {
namespace {

constexpr std::size_t kLargestSize = std::size_t{1} << 36;
constexpr std::size_t kMostBudgetMs = 600'000;
constexpr const char* kSizeOptions = "Sizes";
constexpr const char* kOperationOptions = "Operation";
constexpr const char* kRankOptions = "Ranks";
constexpr const char* kMethodOptions = "Method";
constexpr const char* kOutputOptions = "Output";

constexpr const char* kFooter = R"(
Examples:
  cohort bench all_reduce --ranks 2 --transport shm --min 8 --max 64M
  cohort bench all --ranks 4 --transport tcp --sizes 8,4K,1M --csv
  cohort bench all_reduce --overlap one --sizes 16M
  cohort bench all_reduce --threads --type int32 --op max --algorithm ring

SIZE is a number of bytes such as 8, 64K or 1M: of the vector on every rank for broadcast and all_reduce,
of the whole output for all_gather, of the whole input for reduce_scatter. Times are those of the slowest
rank in each iteration: all ranks start at one moment, with inputs written just before. Results are compared
element by element.

Status: 0 when everything ran and every result was right; 1 otherwise; that of `cohort run` when a rank
fails; 2 for wrong options.)";

/// As they stand on the command line; what parsing turns into numbers comes through `options`.
struct BenchArguments {
  bench::Options options;
  std::vector<std::string> command;
  std::string collective;
  std::string least = "8";
  std::string most = "64M";
  std::size_t factor = 2;
  std::vector<std::string> sizes;
  std::string type = "float32";
  std::string reduce = "sum";
  std::string algorithm;
  std::size_t iterations = 0;
  std::size_t warmup = 0;
  std::size_t budget_ms = 100;
  std::string timeout;
  std::size_t near_wait_ms = 0;
  std::string overlap;
  bool is_csv = false;
  bool is_json = false;
  bool leaves_inputs = false;
  bool is_unchecked = false;
  bool is_unpinned = false;
};

template <class Values>
std::vector<std::string> names_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(to_string(value));
  return names;
}

std::vector<Operator> all_operators() {
  std::vector<Operator> operators;
  for (std::size_t i = 0; i < kOperators; ++i) operators.push_back(static_cast<Operator>(i));
  return operators;
}

std::vector<AlgorithmId> all_algorithms() {
  std::vector<AlgorithmId> algorithms;
  for (std::size_t i = 0; i < kAlgorithms; ++i) algorithms.push_back(static_cast<AlgorithmId>(i));
  return algorithms;
}

/// Refuses what `parse` throws an Error for, in its words.
template <class Parse>
CLI::Validator accepts(const char* type_name, Parse parse) {
  const auto check = [parse](std::string& text) -> std::string {
    try {
      parse(text);
      return "";
    } catch (const Error& error) {
      return std::string(error.message());
    }
  };
  return CLI::Validator(check, type_name);
}

std::size_t parse_size(const std::string& text) {
  const std::uint64_t bytes = environment::parse_bytes("SIZE", text);
  if (bytes == 0 || bytes > kLargestSize)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("SIZE='{}' is not from 1 to {}G", text, kLargestSize >> 30));
  return bytes;
}

void add_operation_options(CLI::App& bench, BenchArguments& arguments) {
  std::vector<std::string> collectives = names_of(all_operators());
  collectives.emplace_back("all");
  bench.add_option("collective", arguments.collective, "What to measure")
      ->required()
      ->check(CLI::IsMember(collectives))
      ->type_name("COLLECTIVE");
  bench.add_option("--type", arguments.type, "Of the elements")
      ->check(CLI::IsMember(names_of(kDataTypes)))
      ->capture_default_str()
      ->group(kOperationOptions);
  bench.add_option("--op", arguments.reduce, "How they are reduced")
      ->check(CLI::IsMember(names_of(kReduceOps)))
      ->capture_default_str()
      ->group(kOperationOptions);
  bench.add_option("--root", arguments.options.root, "Of a broadcast")
      ->type_name("RANK")
      ->capture_default_str()
      ->group(kOperationOptions);
  bench.add_option("--algorithm", arguments.algorithm, "This one, instead of what the library selects")
      ->check(CLI::IsMember(names_of(all_algorithms())))
      ->group(kOperationOptions);
  bench
      .add_flag("--in-place", arguments.options.is_in_place,
                "Results replace inputs (a broadcast always does)")
      ->group(kOperationOptions);
}

void add_size_options(CLI::App& bench, BenchArguments& arguments) {
  const CLI::Validator size = accepts("SIZE", parse_size);
  CLI::Option* least = bench.add_option("--min", arguments.least, "Smallest size")->check(size);
  CLI::Option* most = bench.add_option("--max", arguments.most, "Largest size")->check(size);
  CLI::Option* factor = bench.add_option("--factor", arguments.factor, "From one size to the next");
  factor->check(CLI::Range(std::size_t{2}, kLargestSize))->type_name("NUMBER");
  CLI::Option* sizes = bench.add_option("--sizes", arguments.sizes, "These sizes, such as 8,4K,1M");
  sizes->delimiter(',')->check(size)->excludes(least, most, factor);
  for (CLI::Option* option : {least, most, factor}) option->capture_default_str();
  for (CLI::Option* option : {least, most, factor, sizes}) option->group(kSizeOptions);
}

void add_rank_options(CLI::App& bench, BenchArguments& arguments) {
  bench.add_option("-n,--ranks", arguments.options.ranks, "How many ranks")
      ->check(CLI::Range(Rank{1}, bench::kMostRanks))
      ->type_name("COUNT")
      ->capture_default_str()
      ->group(kRankOptions);
  bench.add_option("--transport", arguments.options.transport, "Force a transport (COHORT_TRANSPORT)")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->group(kRankOptions);
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
  timeout->check(accepts("TIME", parse_timeout));
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
  for (CLI::Option* option : {csv, json}) option->group(kOutputOptions);
}

bench::Options finish(const CLI::App& bench, const BenchArguments& arguments) {
  bench::Options options = arguments.options;
  if (arguments.collective == "all")
    options.operators = all_operators();
  else
    options.operators = {*parse_operator(arguments.collective)};
  options.type = *parse_data_type(arguments.type);
  options.reduce = *parse_reduce_op(arguments.reduce);
  if (!arguments.algorithm.empty()) options.algorithm = parse_algorithm(arguments.algorithm);
  for (const std::string& size : arguments.sizes) options.sizes_bytes.push_back(parse_size(size));
  if (arguments.sizes.empty())
    options.sizes_bytes =
        bench::sizes_between(parse_size(arguments.least), parse_size(arguments.most), arguments.factor);
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
  CLI::App* bench = app.add_subcommand("bench", "Measure collectives between ranks on this host");
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->command = std::move(command);
  add_operation_options(*bench, *arguments);
  add_size_options(*bench, *arguments);
  add_rank_options(*bench, *arguments);
  add_method_options(*bench, *arguments);
  add_output_options(*bench, *arguments);
  bench->footer(kFooter);
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
