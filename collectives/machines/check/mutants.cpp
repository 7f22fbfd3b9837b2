// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/mutants.h>

#include <cohort/collectives/machines/check/cost_check.h>
#include <cohort/collectives/machines/check/known_survivors.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

namespace cohort::check {
namespace {

constexpr WindowId kWindowsToTry[] = {WindowId::send, WindowId::recv, WindowId::ccl_in, WindowId::ccl_out,
                                      WindowId::scratch};
constexpr Signal kSignalsToTry[] = {Signal::Ack, Signal::DataSignal, Signal::DataAck};

/// A task as it was seen, with its operands, which otherwise lie in the schedule's frame.
struct Seen {
  TaskPlace place;
  TaskRequest request;
  std::vector<PlacedSlice> outputs;
  std::vector<PlacedSlice> inputs;

  /// For as long as this lives.
  [[nodiscard]] TaskRequest whole() const {
    TaskRequest all = request;
    all.outputs = outputs;
    all.inputs = inputs;
    return all;
  }
};
using SeenTask = std::shared_ptr<const Seen>;

bool is_same_place(const TaskPlace& a, const TaskPlace& b) {
  return a.operation == b.operation && a.rank == b.rank && a.number == b.number && a.stream == b.stream;
}

bool is_local(TaskKind kind) {
  return kind == TaskKind::copy || reaches(kind) || kind == TaskKind::reduce ||
         kind == TaskKind::finish_average || kind == TaskKind::notify_post;
}
bool is_on_link(TaskKind kind) { return kind >= TaskKind::post && kind <= TaskKind::recv_reduce; }
bool has_signal(TaskKind kind) {
  return kind == TaskKind::post || kind == TaskKind::wait || kind == TaskKind::put;
}
bool has_remote(TaskKind kind) {
  return kind == TaskKind::put || kind == TaskKind::get || kind == TaskKind::get_reduce;
}
bool has_local(TaskKind kind) {
  return kind == TaskKind::finish_average ||
         (is_on_link(kind) && kind != TaskKind::post && kind != TaskKind::wait);
}

bool has_slices(TaskKind kind) {
  return has_local(kind) || kind == TaskKind::copy || reaches(kind) || kind == TaskKind::reduce;
}

/// The tasks of the first operation, by rank and stream, in their order.
std::vector<SeenTask> tasks_of(const Case& one) {
  std::map<std::tuple<Rank, std::string, std::uint32_t>, SeenTask> tasks;
  const Fault watch = [&](const TaskPlace& place, TaskRequest& request) {
    if (place.operation != 1) return Fate::keep;
    Seen seen{place, request, {}, {}};
    seen.outputs.assign(request.outputs.begin(), request.outputs.end());
    seen.inputs.assign(request.inputs.begin(), request.inputs.end());
    seen.request.outputs = seen.request.inputs = {};
    tasks.emplace(std::tuple(place.rank, place.stream, place.number),
                  std::make_shared<const Seen>(std::move(seen)));
    return Fate::keep;
  };
  const Report report = check(*one.algorithm, one.options, &watch);
  if (!report.passed())
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{} does not pass, so its mutants tell nothing; make it pass first: {}",
                            describe(one), report.findings.front().text));
  std::vector<SeenTask> list;
  for (const auto& [key, task] : tasks) list.push_back(task);
  return list;
}

/// Every change of one task.
class Changes {
 public:
  Changes(const Case& one, std::vector<Mutant>& list)
      : ranks_(one.options.ranks), element_(size_bytes(one.options.type)), list_(list) {}

  void add_all(const SeenTask& task) {
    task_ = task;
    const TaskKind kind = task->request.kind;
    add_fate(ChangeKind::drop, Fate::drop, "dropped");
    add_fate(ChangeKind::twice, Fate::twice, "twice");
    if (is_on_link(kind)) add_redirections();
    if (has_local(kind)) add_slice_changes("local", [](Seen& seen) { return &seen.request.local; });
    if (has_remote(kind)) add_slice_changes("remote", [](Seen& seen) { return &seen.request.remote; });
    for (std::size_t i = 0; i < task->outputs.size(); ++i)
      add_operand_changes(fmt::format("output {}", i), [i](Seen& seen) { return &seen.outputs[i]; });
    for (std::size_t i = 0; i < task->inputs.size(); ++i)
      add_operand_changes(fmt::format("input {}", i), [i](Seen& seen) { return &seen.inputs[i]; });
    if (has_slices(kind)) add_shorter();
  }

  /// Each in the other's place; for neighbours in a stream.
  void add_swap(const SeenTask& first, const SeenTask& second) {
    task_ = first;
    const TaskKind a = first->request.kind;
    const TaskKind b = second->request.kind;
    // What waits needs a place that can wait; a wait for a Notify is one for such waits only.
    const bool is_at_second = (is_local(a) && !is_local(b)) ||
                              (a == TaskKind::notify_wait && is_on_link(b)) ||
                              (a == TaskKind::notify_wait && b == TaskKind::phase);
    const SeenTask& at = is_at_second ? second : first;
    const SeenTask& gone = is_at_second ? first : second;
    add(
        ChangeKind::swap, fmt::format("after {}", describe(record(second->whole(), second->place.rank))),
        [=](const TaskPlace& place, TaskRequest& request) {
          if (is_same_place(place, gone->place)) return Fated(Fate::drop);
          if (!is_same_place(place, at->place)) return Fated(Fate::keep);
          request = second->whole();
          Fated fated(Fate::keep);
          fated.then.push_back(first->whole());
          return fated;
        },
        record(second->whole(), second->place.rank));
  }

 private:
  void add(ChangeKind kind, const std::string& how, Fault fault, const TaskRecord& changed = {}) {
    const TaskPlace& at = task_->place;
    const TaskRecord task = record(task_->whole(), at.rank);
    list_.push_back(
        {kind, task, changed,
         fmt::format("rank {}, {}, task {} ({}): {}", at.rank, at.stream, at.number, describe(task), how),
         std::move(fault)});
  }
  void add_fate(ChangeKind kind, Fate fate, const char* how) {
    add(kind, how, [task = task_, fate](const TaskPlace& place, TaskRequest&) {
      return is_same_place(place, task->place) ? fate : Fate::keep;
    });
  }
  template <class Edit>
  void add_edit(ChangeKind kind, const std::string& how, Edit edit) {
    auto edited = std::make_shared<Seen>(*task_);
    edit(*edited);
    const Fault fault = [task = task_, edited](const TaskPlace& place, TaskRequest& request) {
      if (is_same_place(place, task->place)) request = edited->whole();
      return Fate::keep;
    };
    add(kind, how, fault, record(edited->whole(), edited->place.rank));
  }

  void add_redirections() {
    const TaskRequest& request = task_->request;
    for (Rank peer = 0; peer < ranks_; ++peer)
      if (peer != request.peer && peer != task_->place.rank)
        add_edit(ChangeKind::peer, fmt::format("with rank {}", peer),
                 [peer](Seen& seen) { seen.request.peer = peer; });
    add_edit(ChangeKind::lane, "on the next lane", [](Seen& seen) { ++seen.request.lane; });
    if (!has_signal(request.kind)) return;
    for (const Signal signal : kSignalsToTry)
      if (signal != request.signal)
        add_edit(ChangeKind::signal, fmt::format("as {}", to_string(signal)),
                 [signal](Seen& seen) { seen.request.signal = signal; });
  }
  template <class Get>
  void add_slice_changes(const std::string& what, Get get) {
    Seen now = *task_;
    const Slice slice = *get(now);
    for (const WindowId window : kWindowsToTry)
      if (window != slice.window)
        add_edit(ChangeKind::window, fmt::format("{} in {}", what, to_string(window)),
                 [=](Seen& seen) { get(seen)->window = window; });
    add_edit(ChangeKind::shift, fmt::format("{} an element behind", what),
             [=, this](Seen& seen) { get(seen)->offset += element_; });
    if (slice.offset < element_) return;
    add_edit(ChangeKind::shift, fmt::format("{} an element before", what),
             [=, this](Seen& seen) { get(seen)->offset -= element_; });
  }
  template <class Get>
  void add_operand_changes(const std::string& what, Get get) {
    add_slice_changes(what, [get](Seen& seen) { return &get(seen)->slice; });
    Seen now = *task_;
    const Rank was = get(now)->rank;
    for (Rank rank = 0; rank < ranks_; ++rank)
      if (rank != was)
        add_edit(ChangeKind::peer, fmt::format("{} of rank {}", what, rank),
                 [=](Seen& seen) { get(seen)->rank = rank; });
  }
  void add_shorter() {
    const auto shorten = [this](Slice& slice) {
      if (slice.bytes >= element_) slice.bytes -= element_;
    };
    Seen shorter = *task_;
    shorten(shorter.request.local);
    shorten(shorter.request.remote);
    for (auto* const places : {&shorter.outputs, &shorter.inputs})
      for (PlacedSlice& place : *places) shorten(place.slice);
    add_edit(ChangeKind::shorten, "an element shorter", [&](Seen& seen) { seen = shorter; });
  }

  const Rank ranks_;
  const std::size_t element_;
  std::vector<Mutant>& list_;
  SeenTask task_;
};

bool are_neighbours(const TaskPlace& a, const TaskPlace& b) {
  return a.rank == b.rank && a.stream == b.stream && a.number + 1 == b.number && a.forks == b.forks;
}

}  // namespace

std::string_view to_string(ChangeKind kind) noexcept {
  switch (kind) {
    case ChangeKind::drop: return "drop";
    case ChangeKind::twice: return "double";
    case ChangeKind::peer: return "peer";
    case ChangeKind::signal: return "signal";
    case ChangeKind::lane: return "lane";
    case ChangeKind::window: return "window";
    case ChangeKind::shift: return "shift";
    case ChangeKind::shorten: return "shorten";
    case ChangeKind::swap: return "swap";
  }
  return "unknown";
}

std::vector<Mutant> mutants_of(const Case& one) {
  const std::vector<SeenTask> tasks = tasks_of(one);
  std::vector<Mutant> list;
  Changes changes(one, list);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    changes.add_all(tasks[i]);
    if (i + 1 < tasks.size() && are_neighbours(tasks[i]->place, tasks[i + 1]->place))
      changes.add_swap(tasks[i], tasks[i + 1]);
  }
  return list;
}

void MutantReport::add(const MutantReport& other) {
  caught += other.caught;
  equivalent += other.equivalent;
  costlier += other.costlier;
  known += other.known;
  for (std::size_t kind = 0; kind < kChangeKinds; ++kind)
    equivalent_by_kind[kind] += other.equivalent_by_kind[kind];
  survivors.insert(survivors.end(), other.survivors.begin(), other.survivors.end());
}

namespace {

/// Whether costs are those that the algorithm declares.
bool has_declared_cost(const Case& one) {
  return divides_evenly(*one.algorithm, one.options) && one.options.piece_bytes == CheckOptions().piece_bytes;
}

}  // namespace

MutantReport run_mutants(const Case& one, std::size_t stride) {
  CheckOptions options = one.options;
  options.explains_deadlocks = false;
  options.runs_each_operation = true;  // as with a fault: results are those of all
  const Report right = check(*one.algorithm, options);
  const std::vector<Mutant> list = mutants_of(one);
  MutantReport report;
  for (std::size_t i = 0; i < list.size(); i += stride) {
    bool is_caught = false;
    bool has_same_results = true;
    bool has_same_cost = true;
    for (options.seed = 0; options.seed < kOrdersTried && !is_caught; ++options.seed) {
      const Report found = check(*one.algorithm, options, &list[i].fault);
      is_caught = !found.passed();
      has_same_results = has_same_results && found.results == right.results;
      has_same_cost = has_same_cost && found.counted == right.counted;
    }
    if (is_caught) {
      ++report.caught;
    } else if (has_same_results && has_same_cost) {
      ++report.equivalent;
      ++report.equivalent_by_kind[static_cast<std::size_t>(list[i].kind)];
    } else if (has_same_results && !has_declared_cost(one)) {
      ++report.costlier;
    } else if (is_known_survivor(one, list[i])) {
      ++report.known;
    } else {
      report.survivors.push_back(fmt::format("{}: {}", describe(one), list[i].text));
    }
  }
  return report;
}

namespace {

/// Of CCL buffers, in two halves: what there is takes at least three pieces, so that a half is used again.
constexpr std::size_t kStagePerRank = 128;

/// Of so many elements, and from that root, unless the filter says so.
std::vector<Case> cases_like(CaseFilter filter, Rank ranks, std::size_t count, Rank root) {
  filter.ranks = {ranks};
  if (filter.counts.empty()) filter.counts = {count};
  if (!filter.root) filter.root = root;
  return cases(filter);
}

}  // namespace

std::vector<Case> cases_for_mutants(CaseFilter filter) {
  if (filter.ranks.empty()) filter.ranks = {2, 3, 4, 5, 7, 8};
  filter.has_every_plan = false;
  std::vector<Case> list;
  for (const Rank ranks : filter.ranks) {
    const std::size_t even = kEvenPerRank * ranks;
    for (const Case& one : cases_like(filter, ranks, even, ranks - 1)) list.push_back(one);
    if (!filter.counts.empty()) continue;
    for (const Case& one : cases_like(filter, ranks, even + 1, 0)) {
      list.push_back(one);
      if (!one.op()->has_data) continue;
      const std::size_t bytes = one.options.count * size_bytes(one.options.type);
      if (const std::optional<Case> cut = in_pieces(one, bytes / 10 * 9)) list.push_back(*cut);
      if (const std::optional<Case> cut = in_stages(one, kStagePerRank * ranks)) list.push_back(*cut);
    }
  }
  return list;
}

}  // namespace cohort::check
