// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/explain_command.h>

#include <cohort/tools/bench/options.h>
#include <cohort/tools/command_line.h>
#include <cohort/tools/explain/job.h>

#include <CLI/CLI.hpp>
#include <memory>

namespace cohort {
namespace {

constexpr const char* kExplainFooter = R"(
Examples:
  cohort explain all_reduce --ranks 4
  cohort explain all --transport tcp --sizes 8,64K,1M --verbose
  COHORT_ALGO=ring cohort explain broadcast --json
  cohort run -n 4 -- cohort explain all_reduce
  cohort explain all_reduce --transport tcp --determinism D3 --verbose

SIZE is a number of bytes such as 8, 64K or 1M, of the largest buffer that a rank has: of the vector, of the
whole output for all_gather, of the whole input for reduce_scatter. Estimates are what was measured
when the ranks joined, over shared memory, and what the model of links says, over TCP; where neither knows,
there is none. --verbose names what each algorithm moves, and which have no schedule.
docs/design/selection.md explains the rules, docs/README.md the words.

Without a job around it, the ranks are threads of this process that reach each other as processes do.

Status: 0; 1 when ranks cannot join or the algorithm cannot run; 2 for wrong options.)";

/// As they stand on the command line; what parsing turns into numbers comes through `options`.
struct ExplainArguments {
  explain::Options options;
  std::string collective;
  command_line::Sizes sizes;
  std::string type = "float32";
  std::string algorithm;
  std::string determinism;
};

explain::Options finish(const ExplainArguments& arguments) {
  explain::Options options = arguments.options;
  options.operators = command_line::operators_of(arguments.collective);
  options.sizes_bytes = arguments.sizes.bytes();
  if (options.sizes_bytes.empty())
    throw CLI::ValidationError("explain", "no size to explain: --min must not be larger than --max");
  options.type = *parse_data_type(arguments.type);
  options.algorithm = arguments.algorithm;
  options.determinism = parse_determinism(arguments.determinism);
  return options;
}

}  // namespace

void add_explain_command(CLI::App& app, int& status) {
  CLI::App* explain = app.add_subcommand("explain", "Tell which algorithm runs a collective here, and why");
  const auto arguments = std::make_shared<ExplainArguments>();
  command_line::add_operator(*explain, arguments->collective, "What to explain");
  command_line::add_type(*explain, arguments->type);
  command_line::add_algorithm(*explain, arguments->algorithm);
  explain->add_option("--determinism", arguments->determinism, "Of combined bits (COHORT_DETERMINISM)")
      ->check(CLI::IsMember({"D0", "D1", "D2", "D3"}));
  command_line::add_sizes(*explain, arguments->sizes);
  explain->add_option("-n,--ranks", arguments->options.ranks, "How many ranks (2)")
      ->check(CLI::Range(Rank{1}, bench::kMostRanks))
      ->type_name("COUNT");
  command_line::add_transport(*explain, arguments->options.transport);
  explain->add_flag("--verbose", arguments->options.is_verbose, "Every algorithm, not only the chosen one");
  explain->add_flag("--json", arguments->options.is_json, "A JSON object a line, with every algorithm");
  explain->footer(kExplainFooter);
  explain->callback([arguments, &status] { status = explain::run_job(finish(*arguments)); });
}

}  // namespace cohort
