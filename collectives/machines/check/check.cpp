// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/check.h>

#include <cohort/collectives/machines/check/cost_check.h>
#include <cohort/collectives/machines/check/machine.h>
#include <cohort/collectives/machines/check/plan.h>
#include <cohort/collectives/machines/check/rank_exec.h>
#include <cohort/collectives/machines/stage/arrival.h>
#include <cohort/engine/error.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cohort::check {
namespace {

/// That refer each for itself.
constexpr Rank kRanksApart = 64;

/// Slots alternate: a third operation uses those of the first again.
constexpr std::uint32_t kLeastOperationsInSlots = 3;
/// Of ranks that go ahead, of which one may have left the second when another comes to the first.
constexpr std::uint32_t kLeastOperationsAhead = 4;

bool travels(const AnyAlgorithm& algorithm, const CheckOptions& options) {
  std::size_t most = 0;
  for (Rank rank = 0; rank < options.ranks; ++rank)
    most = std::max(most, algorithm.op()->extent(options.form(), rank).send);
  return most * size_bytes(options.type) <= tuning::slots::kMostBytes;
}

void check_options(const AnyAlgorithm& algorithm, const CheckOptions& options) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorKind::InvalidArgument, text); };
  if (!algorithm.objection().empty())
    refuse(fmt::format("algorithm '{}' cannot run: {}", algorithm.name(), algorithm.objection()));
  const bool is_alone = algorithm.scope() == Scope::self;
  if (options.ranks == 0 || (options.ranks == 1) != is_alone)
    refuse(fmt::format("a check of '{}' with {} rank{}: {}", algorithm.name(), options.ranks,
                       options.ranks == 1 ? "" : "s",
                       is_alone ? "it is for a communicator of one" : "at least 2 are needed"));
  const std::size_t counts = how_many(algorithm.op()->counts, options.ranks);
  if (!options.counts.empty() && options.counts.size() != counts)
    refuse(
        fmt::format("{} counts where {} takes {}", options.counts.size(), to_string(algorithm.op()), counts));
  for (const std::size_t count : options.counts)
    if (count > options.count) refuse(fmt::format("a count of {}, but {} is the most", count, options.count));
  if (options.root >= options.ranks) refuse(fmt::format("root {} of {} ranks", options.root, options.ranks));
  if (options.operations == 0 || options.untaken_posts == 0)
    refuse("operations and untaken_posts start at 1");
  if (options.user_windows != UserWindows::staged && algorithm.scope() == Scope::network)
    refuse("user windows are reached by algorithms within a node only");
  if (!options.host_of.empty() && options.host_of.size() != options.ranks)
    refuse(fmt::format("the hosts of {} ranks, where there are {}", options.host_of.size(), options.ranks));
  if (algorithm.scope() == Scope::node && options.hosts().count() != 1)
    refuse("an algorithm within a node has all ranks on one host");
  if (!algorithm.fits(options.hosts()))
    refuse(fmt::format("'{}' needs {}", algorithm.name(), hosts_needed(algorithm.levels())));
  if (algorithm.announces() == Announces::data && !travels(algorithm, options))
    refuse(fmt::format("what a rank brings to an arrival is at most {} bytes", tuning::slots::kMostBytes));
}

OperatorArguments arguments_of(const CheckOptions& options) {
  return {options.count, size_bytes(options.type), Combine(options.type, options.reduce, options.ranks),
          options.root, options.counts};
}

Task<> run_operation(RankExec& x, const AnyAlgorithm& algorithm, const CheckOptions& options,
                     std::size_t piece) {
  const OperatorArguments arguments = arguments_of(options);
  const bool is_mapped = options.user_windows == UserWindows::mapped;
  if (algorithm.scope() == Scope::self) {
    algorithm.combine(x, arguments);
    co_return;
  }
  if (algorithm.announces() == Announces::data) {
    co_await x.catch_up();
    x.announce(algorithm, arguments);
  }
  if (algorithm.scope() == Scope::node) co_await x.meet();
  const bool is_local =
      algorithm.announces() == Announces::data || (algorithm.announces() == Announces::windows && is_mapped);
  if (is_local)
    co_await machine::run_local(x, algorithm, arguments);
  else
    co_await algorithm.run(x, arguments, piece);
}

std::uint32_t operations_of(const AnyAlgorithm& algorithm, const CheckOptions& options) {
  const bool may_go_ahead =
      options.goes_ahead && algorithm.op().is_one_way() && options.referring == Referring::nobody;
  const std::uint32_t least = algorithm.announces() != Announces::data ? 1
                              : may_go_ahead                           ? kLeastOperationsAhead
                                                                       : kLeastOperationsInSlots;
  return options.operations == 1 ? 1 : std::max(least, options.operations);
}

/// What one rank does: operation after operation, each in pieces, as on a communicator.
Task<> run_rank(Machine& machine, RankExec& x, const AnyAlgorithm& algorithm, const CheckOptions& options,
                std::size_t piece, std::uint32_t operations) {
  std::exception_ptr failure;
  try {
    for (std::uint32_t i = 0; i < operations; ++i) {
      machine.begin();
      x.begin(i);
      co_await run_operation(x, algorithm, options, piece);
      machine.end();
    }
  } catch (const std::exception& error) {
    machine.failed(x.rank(), error.what());
    failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
}

void run(Machine& machine, const AnyAlgorithm& algorithm, const CheckOptions& options, std::size_t piece,
         std::uint32_t operations) {
  std::vector<std::unique_ptr<RankExec>> execs;
  std::vector<Task<>> ranks;
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    execs.push_back(std::make_unique<RankExec>(machine, rank));
    ranks.push_back(run_rank(machine, *execs.back(), algorithm, options, piece, operations));
  }
  try {
    machine.run(std::move(ranks));
  } catch (const std::exception&) {
    // The machine knows why: the first to fail has told it.
  }
  machine.check_ends(operations);
}

/// In each round, what one rank has reaches at most as many times more ranks as a rank sends messages, and
/// one.
std::uint32_t least_rounds(Rank ranks, std::uint64_t messages) {
  std::uint32_t rounds = 0;
  for (std::uint64_t reached = 1; messages != 0 && reached < ranks; reached *= 1 + messages) ++rounds;
  return rounds;
}

Counted counted(const Machine& machine) {
  Counted result;
  std::uint64_t messages = 0;
  for (Rank rank = 0; rank < machine.ranks(); ++rank) {
    const Traffic& traffic = machine.traffic(rank);
    result.bytes_sent = std::max(result.bytes_sent, traffic.sent + traffic.stored_at_peers);
    result.bytes_received = std::max(result.bytes_received, traffic.received);
    result.bytes_copied = std::max(result.bytes_copied, traffic.copied);
    result.bytes_combined = std::max(result.bytes_combined, traffic.combined);
    messages = std::max(messages, traffic.messages);
    result.messages += traffic.messages;
    result.bytes_to_all += traffic.received + traffic.stored_at_peers;
  }
  result.rounds = machine.rounds();
  result.path_bytes = machine.path_bytes();
  result.least_rounds = least_rounds(machine.ranks(), messages);
  return result;
}

bool has_deadlock(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.kind == FindingKind::deadlock; });
}

Report run_operations(const AnyAlgorithm& algorithm, const CheckOptions& options, const Fault* fault,
                      std::uint32_t operations) {
  const std::size_t bytes = algorithm.op()->has_data ? options.count * size_bytes(options.type) : 0;
  const std::size_t largest =
      std::min(algorithm.largest_piece(options.buffer_bytes, options.hosts()), options.piece_bytes);
  const std::size_t piece = piece_bytes(bytes, size_bytes(options.type), largest);
  const Plan plan = plan_of(algorithm, options, piece);
  Machine machine(plan, fault);
  run(machine, algorithm, options, piece, operations);

  Report report;
  report.findings = machine.findings();
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
  report.counted = counted(machine);
  report.counted.least_to_all = algorithm.op()->least_traffic(options.form()) * size_bytes(options.type);
  report.tasks = machine.tasks();
  report.holds_in_a_row = machine.holds_in_a_row();
  report.combines_in_rank_order = machine.is_in_rank_order();
  report.combines_at_once = machine.is_at_once();
  report.example_of_order = machine.example_of_order();
  report.results = machine.results();
  report.had_empty_messages = machine.had_empty_messages();
  if (report.passed() && options.checks_cost)
    check_cost(machine, algorithm, {options, bytes, piece >= bytes}, report);
  return report;
}

/// Whether links that buffer would help.
void explain_deadlocks(const AnyAlgorithm& algorithm, const CheckOptions& options, const Fault* fault,
                       Report& report) {
  CheckOptions eager = options;
  eager.is_eager = true;
  if (has_deadlock(check(algorithm, eager, fault).findings)) return;
  for (Finding& finding : report.findings)
    if (finding.kind == FindingKind::deadlock)
      finding.text += " (it ends only where links buffer whatever is sent, which none of them promises)";
}

Report check_once(const AnyAlgorithm& algorithm, const CheckOptions& options, const Fault* fault) {
  check_options(algorithm, options);
  const std::uint32_t operations = operations_of(algorithm, options);
  // A fault may be another one in each operation.
  if (operations > 1 && fault == nullptr && !options.runs_each_operation) {
    Report first = run_operations(algorithm, options, nullptr, 1);
    if (first.passed() && first.holds_in_a_row) return first;
  }
  Report report = run_operations(algorithm, options, fault, operations);
  if (options.explains_deadlocks && !options.is_eager && has_deadlock(report.findings))
    explain_deadlocks(algorithm, options, fault, report);
  return report;
}

}  // namespace

std::string to_string(Referring referring) {
  switch (referring) {
    case Referring::nobody: return "";
    case Referring::everybody: return "all by reference";
    case Referring::rank_0: return "rank 0 by reference";
    case Referring::all_but_rank_0: return "all but rank 0 by reference";
  }
  std::string ranks;
  for (Rank rank = 0; rank < kRanksApart; ++rank)
    if (refers(referring, rank)) ranks += fmt::format(" {}", rank);
  return fmt::format("ranks{} by reference", ranks);
}

bool refers(Referring referring, Rank rank) noexcept {
  return (static_cast<std::uint64_t>(referring) >> std::min(rank, kRanksApart - 1) & 1) != 0;
}

std::string Report::text() const {
  std::string text;
  for (const Finding& finding : findings)
    text += fmt::format("{}: {}\n", to_string(finding.kind), finding.text);
  return text;
}

namespace {

/// Who may have heard of others by nothing but messages without bytes is asked by none: whom it has not heard
/// of even by these is found where they order.
void find_unheard(const AnyAlgorithm& algorithm, const CheckOptions& options, const Fault* fault,
                  Report& report) {
  CheckOptions ordering = options;
  ordering.empty_messages_order = true;
  ordering.checks_cost = false;
  report.findings = check(algorithm, ordering, fault).findings;
}

}  // namespace

Report check(const AnyAlgorithm& algorithm, const CheckOptions& options, const Fault* fault) {
  Report report = check_once(algorithm, options, fault);
  if (report.passed() && report.had_empty_messages) find_unheard(algorithm, options, fault, report);
  return report;
}

}  // namespace cohort::check
