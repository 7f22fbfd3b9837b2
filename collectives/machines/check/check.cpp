// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/check.h>

#include <cohort/collectives/call/pieces.h>
#include <cohort/collectives/machines/check/cost_check.h>
#include <cohort/collectives/machines/check/machine.h>
#include <cohort/collectives/machines/check/rank_exec.h>
#include <cohort/collectives/machines/check/shape.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cohort::check {
namespace {

constexpr std::size_t kCclInMemory = 2;
constexpr std::size_t kCclOutMemory = 3;
constexpr std::size_t kScratchMemory = 4;
constexpr std::size_t kMemories = 5;

void check_options(const CheckOptions& options, bool is_mapped_group) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorKind::InvalidArgument, text); };
  if (options.ranks < 2) refuse(fmt::format("a check of {} ranks: at least 2 are needed", options.ranks));
  if (options.root >= options.ranks) refuse(fmt::format("root {} of {} ranks", options.root, options.ranks));
  if (options.operations == 0 || options.untaken_posts == 0)
    refuse("operations and untaken_posts start at 1");
  if (options.user_windows != UserWindows::unreachable && !is_mapped_group)
    refuse("user windows are reached by algorithms with needs_mapped_group only");
  const bool is_one_host = options.ranks_per_host == 0 || options.ranks_per_host >= options.ranks;
  if (is_mapped_group && !is_one_host)
    refuse("an algorithm with needs_mapped_group has all ranks on one host");
}

template <class Op>
Plan plan_of(const Algorithm<Op>& algorithm, const CheckOptions& options, std::size_t piece) {
  Plan plan;
  plan.ranks = options.ranks;
  plan.is_mapped_group = algorithm.needs_mapped_group;
  plan.user_windows = options.user_windows;
  plan.is_averaged = options.reduce == ReduceOp::avg;
  plan.needs = algorithm.needs(piece, options.ranks);
  plan.ccl_bytes = options.buffer_bytes;
  plan.untaken_posts = options.untaken_posts;
  plan.is_eager = options.is_eager;
  plan.seed = options.seed;
  plan.all_ranks.resize(options.ranks);
  std::iota(plan.all_ranks.begin(), plan.all_ranks.end(), Rank{0});
  plan.ranks_per_host = options.ranks_per_host == 0 ? options.ranks : options.ranks_per_host;
  plan.shares.resize(options.ranks);
  const std::array<std::pair<WindowId, WindowPlace>, 3> own = {
      std::pair{WindowId::ccl_in, WindowPlace{kCclInMemory, 0, options.buffer_bytes}},
      std::pair{WindowId::ccl_out, WindowPlace{kCclOutMemory, 0, options.buffer_bytes}},
      std::pair{WindowId::scratch, WindowPlace{kScratchMemory, 0, plan.needs.scratch_bytes}}};
  for (RankPlan& share : plan.shares) {
    share.allocations.assign(kMemories, 0);
    for (const auto& [window, place] : own) {
      share.windows[static_cast<std::size_t>(window)] = place;
      share.allocations[place.allocation] = place.bytes;
    }
  }
  Shape<Op>::fill(options, plan);
  return plan;
}

/// What one rank does: operation after operation, each in pieces, as on a communicator.
template <class Op>
Task<> run_rank(Machine& machine, RankExec& x, const Algorithm<Op>& algorithm, const CheckOptions& options,
                std::size_t piece) {
  std::exception_ptr failure;
  try {
    for (std::uint32_t i = 0; i < options.operations; ++i) {
      machine.begin();
      if (algorithm.needs_mapped_group) co_await x.meet();
      co_await run_in_pieces(algorithm, x, Shape<Op>::op(options), piece);
      machine.end();
    }
  } catch (const std::exception& error) {
    machine.failed(x.rank(), error.what());
    failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
}

template <class Op>
void run(Machine& machine, const Algorithm<Op>& algorithm, const CheckOptions& options, std::size_t piece) {
  std::vector<std::unique_ptr<RankExec>> execs;
  std::vector<Task<>> ranks;
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    execs.push_back(std::make_unique<RankExec>(machine, rank));
    ranks.push_back(run_rank(machine, *execs.back(), algorithm, options, piece));
  }
  try {
    machine.run(std::move(ranks));
  } catch (const std::exception&) {
    // The machine knows why: the first to fail has told it.
  }
}

template <class Op>
std::size_t message_bytes(const Op& op) {
  if constexpr (std::same_as<Op, Barrier>)
    return 0;
  else
    return op.size_bytes();
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
    const Counts& counts = machine.counts(rank);
    result.bytes_sent = std::max(result.bytes_sent, counts.sent + counts.stored_at_peers);
    result.bytes_received = std::max(result.bytes_received, counts.received);
    result.bytes_copied = std::max(result.bytes_copied, counts.copied);
    result.bytes_combined = std::max(result.bytes_combined, counts.combined);
    messages = std::max(messages, counts.messages);
    result.bytes_to_all += counts.received + counts.stored_at_peers;
  }
  result.rounds = machine.rounds();
  result.least_rounds = least_rounds(machine.ranks(), messages);
  return result;
}

bool has_deadlock(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.kind == FindingKind::deadlock; });
}

}  // namespace

std::string_view to_string(UserWindows windows) noexcept {
  switch (windows) {
    case UserWindows::unreachable: return "private";
    case UserWindows::readable: return "readable";
    case UserWindows::mapped: return "mapped";
  }
  return "unknown";
}

std::string Report::text() const {
  std::string text;
  for (const Finding& finding : findings)
    text += fmt::format("{}: {}\n", to_string(finding.kind), finding.text);
  return text;
}

template <class Op>
Report check(const Algorithm<Op>& algorithm, const CheckOptions& options, const Fault* fault) {
  check_options(options, algorithm.needs_mapped_group);
  const std::size_t bytes = message_bytes(Shape<Op>::op(options));
  const std::size_t largest =
      std::min(algorithm.largest_piece(options.buffer_bytes, options.ranks), options.piece_bytes);
  const std::size_t piece = piece_bytes(bytes, size_bytes(options.type), largest);
  const Plan plan = plan_of(algorithm, options, piece);
  Machine machine(plan, fault);
  run(machine, algorithm, options, piece);

  Report report;
  report.findings = machine.findings();
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
  report.counted = counted(machine);
  report.counted.least_to_all = Shape<Op>::least_to_all(options);
  report.tasks = machine.tasks();
  report.combines_in_rank_order = machine.is_in_rank_order();
  report.example_of_order = machine.example_of_order();
  if (has_deadlock(report.findings) && !options.is_eager) {
    CheckOptions eager = options;
    eager.is_eager = true;
    if (!has_deadlock(check(algorithm, eager, fault).findings))
      for (Finding& finding : report.findings)
        if (finding.kind == FindingKind::deadlock)
          finding.text += " (it ends only where links buffer whatever is sent, which none of them promises)";
  }
  if (report.passed() && options.checks_cost)
    check_cost(machine, algorithm.cost(bytes, options.ranks), {options, bytes, piece >= bytes}, report);
  return report;
}

template Report check(const Algorithm<Barrier>&, const CheckOptions&, const Fault*);
template Report check(const Algorithm<Broadcast>&, const CheckOptions&, const Fault*);
template Report check(const Algorithm<AllReduce>&, const CheckOptions&, const Fault*);
template Report check(const Algorithm<AllGather>&, const CheckOptions&, const Fault*);
template Report check(const Algorithm<ReduceScatter>&, const CheckOptions&, const Fault*);

}  // namespace cohort::check
