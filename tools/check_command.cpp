// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/check_command.h>

#include <cohort/engine/error.h>
#include <cohort/tools/check/mutants.h>
#include <cohort/tools/check/run.h>
#include <cohort/tools/command_line.h>
#include <cohort/tools/interruption.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <thread>

namespace cohort {
namespace {

constexpr Rank kMostCheckedRanks = 1024;
constexpr std::size_t kMostCount = std::size_t{1} << 40;
constexpr unsigned kMostThreads = 256;
constexpr std::size_t kLongestStride = 1'000'000;

constexpr const char* kCheckFooter = R"(LIST is numbers and ranges, such as 2-8,16.

Examples:
  cohort check --all
  cohort check all_reduce --algorithm ring --ranks 2-16
  cohort check broadcast --ranks 5 --root 3 --counts 0,1,1000000
  cohort check --mutants
  cohort check all_reduce --mutants --ranks 7,8 --every 61

The schedules of all ranks run on symbolic memory: no data, no network. A case passes when every result is
made of exactly the right contributions, accesses to the same bytes are ordered, no notify is lost or posted
too early, nobody can wait for ever, slices lie inside their windows, and costs are as declared.
With --mutants it is the checker that is on trial: every single change of every task of the schedules has to
be found, or to make no difference to results, order of combination and costs. 2 to 5, 7 and 8 ranks unless
given.

docs/extend/check-a-schedule.md explains the messages, and how to check a schedule of your own.

Ctrl-C stops it and prints what was found so far.

Status: 0 when all cases pass, or no mutant survives; 1 otherwise; 2 for wrong options; 130 after Ctrl-C.)";

struct CheckArguments {
  std::string op;
  std::string algorithm;
  std::string ranks;
  std::string counts;
  Rank root = 0;
  bool is_all = false;
  bool mutates = false;
  std::size_t stride = 1;
  unsigned threads = 0;
};

std::vector<std::size_t> parse_ranks(const std::string& text) {
  return check::parse_numbers("LIST", text, 1, kMostCheckedRanks);
}
std::vector<std::size_t> parse_counts(const std::string& text) {
  return check::parse_numbers("LIST", text, 0, kMostCount);
}

/// A root that none of the numbers of ranks has leaves no case at all.
void check_root(const check::CaseFilter& filter) {
  if (!filter.root || !filter.op || !(*filter.op)->has_root || filter.ranks.empty()) return;
  const Rank most = std::ranges::max(filter.ranks);
  if (*filter.root >= most)
    throw CLI::ValidationError("--root", fmt::format("root {} is no rank of {}: give one from 0 to {}",
                                                     *filter.root, most, most - 1));
}

int status_of(bool is_good) {
  if (Interruption::is_wanted()) return kInterruptedStatus;
  return is_good ? 0 : 1;
}

int check_cases(const CLI::App& command, const CheckArguments& arguments) {
  if (arguments.op.empty() && !arguments.is_all && !arguments.mutates)
    throw CLI::ValidationError("check", "say which operator, or --all, or --mutants");
  check::CaseFilter filter;
  filter.op = parse_operator(arguments.op);
  filter.algorithm = arguments.algorithm;
  if (!arguments.ranks.empty())
    for (const std::size_t ranks : parse_ranks(arguments.ranks))
      filter.ranks.push_back(static_cast<Rank>(ranks));
  if (!arguments.counts.empty()) filter.counts = parse_counts(arguments.counts);
  if (command.count("--root") != 0) filter.root = arguments.root;
  check_root(filter);
  const auto fail_without = [](const std::vector<check::Case>& cases) {
    if (cases.empty()) throw CLI::ValidationError("check", "no algorithm and no case is like that");
  };
  const unsigned threads =
      arguments.threads != 0 ? arguments.threads : std::max(1U, std::thread::hardware_concurrency());
  if (arguments.mutates) {
    const std::vector<check::Case> cases = check::cases_for_mutants(filter);
    fail_without(cases);
    return status_of(check::run_mutants_of(cases, arguments.stride, threads, stdout, stderr));
  }
  fail_without(check::source_of(filter)());
  return status_of(check::run_cases(check::source_of(filter), threads, stdout, stderr));
}

}  // namespace

void add_check_command(CLI::App& app, int& status) {
  CLI::App* check =
      app.add_subcommand("check", "Prove the schedules of the library right, without running them");
  const auto arguments = std::make_shared<CheckArguments>();
  std::vector<std::string> operators;
  for (const Operator each : all_operators()) operators.emplace_back(to_string(each));
  CLI::Option* op = check->add_option("operator", arguments->op, "Whose schedules to check");
  op->check(CLI::IsMember(operators))->type_name("OPERATOR");
  check->add_flag("--all", arguments->is_all, "Those of all operators")->excludes(op);
  CLI::Option* mutants =
      check->add_flag("--mutants", arguments->mutates, "Check schedules with one thing changed");
  check->add_option("--every", arguments->stride, "A sample: every N-th of the mutants of each case")
      ->needs(mutants)
      ->check(CLI::Range(std::size_t{1}, kLongestStride))
      ->type_name("N");
  command_line::add_algorithm(*check, arguments->algorithm)->description("This one only");
  check
      ->add_option("-n,--ranks", arguments->ranks,
                   "How many ranks; unless given 1 to 64, of many not with every root")
      ->check(command_line::accepts("LIST", parse_ranks));
  check
      ->add_option(
          "--counts", arguments->counts,
          "Elements, of a block where ranks have blocks; unless given 0, 1, p-1, p, p+1 and larger ones")
      ->check(command_line::accepts("LIST", parse_counts));
  check->add_option("--root", arguments->root, "Of operators that have one; all of them unless given")
      ->type_name("RANK");
  check->add_option("--threads", arguments->threads, "One per core unless given")
      ->check(CLI::Range(1U, kMostThreads))
      ->type_name("COUNT");
  check->footer(kCheckFooter);
  check->callback([check, arguments, &status] { status = check_cases(*check, *arguments); });
}

}  // namespace cohort
