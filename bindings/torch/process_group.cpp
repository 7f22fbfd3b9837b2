// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/process_group.h>

#include <cohort/bindings/python/interpreter.h>
#include <cohort/bindings/torch/job.h>
#include <cohort/bindings/torch/tensors.h>
#include <cohort/bindings/torch/work.h>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace cohort::torch_face {
namespace {

using std::chrono::milliseconds;

double seconds_of(milliseconds timeout) { return std::chrono::duration<double>(timeout).count(); }

ProcessGroupCohort::Meeting& meeting_of_module() {
  static auto* const one = new ProcessGroupCohort::Meeting();
  return *one;
}

/// Called with or without the interpreter's lock.
template <class Function>
void wait_without_lock(Function&& function) {
  if (PyGILState_Check() != 0) return python::wait_without_lock(function);
  python::Signals signals;
  function(python::is_main_thread() ? &signals : nullptr);
  signals.rethrow();
}

/// The same on all that give the same ranks.
std::string name_of(const char* what, const std::vector<int>& ranks) {
  constexpr std::uint64_t kBasis = 14695981039346656037U;  // FNV-1a
  constexpr std::uint64_t kPrime = 1099511628211U;
  const std::uint64_t digest = std::accumulate(
      ranks.begin(), ranks.end(), kBasis,
      [](std::uint64_t sum, int rank) { return (sum ^ static_cast<std::uint64_t>(rank)) * kPrime; });
  return what + std::to_string(digest);
}

/// Which of the world's its ranks are.
std::vector<std::uint64_t> world_ranks_of(const ProcessGroupCohort::Settings& settings, int size) {
  if (!settings.world_ranks.empty()) return settings.world_ranks;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

ProcessGroupCohort::ProcessGroupCohort(std::shared_ptr<Ranks> ranks, int rank, int size,
                                       const Settings& settings)
    : Backend(rank, size),
      ranks_(std::move(ranks)),
      recorder_(GroupRecord::make_if_wanted(rank, world_ranks_of(settings, size))),
      scratch_(ranks_),
      options_(c10::make_intrusive<Options>("cohort", settings.timeout)),
      timeout_s_(seconds_of(settings.timeout)) {
  options_->group_name = settings.name;
  options_->global_ranks_in_group = settings.world_ranks;
  init();
}

/// Parts of a call that are not shown are not recorded either.
std::shared_ptr<RecordedCall> ProcessGroupCohort::record(const Job& job, double timeout_s,
                                                         const std::string& peers) const {
  if (recorder_ == nullptr || job.title == nullptr) return nullptr;
  return recorder_->begin({getGroupUid(), getGroupDesc()}, {.type = job.type,
                                                            .title = job.title,
                                                            .peers = peers,
                                                            .ordinal = sequence_,
                                                            .inputs = job.inputs,
                                                            .outputs = job.outputs,
                                                            .timeout_s = timeout_s});
}

template <class Call>
ProcessGroupCohort::Work ProcessGroupCohort::launch(Job job, Call call, const std::string& peers) {
  // Profilers are told of calls by their title: without one there is nothing to make.
  const CohortWork::Facts facts{.rank = getRank(),
                                .type = job.type,
                                .title = at::hasCallbacks() ? job.title : nullptr,
                                .timeout_s = call.timeout_s,
                                .sequence = sequence_,
                                .is_timed = is_timed_,
                                .recorded = record(job, call.timeout_s, peers)};
  auto work = c10::make_intrusive<CohortWork>(facts, std::move(job.inputs), std::move(job.outputs),
                                              std::move(job.finish));
  work->start([&](auto over) { return ranks_->start(std::move(call), std::move(over)); });
  coalescing_.add(work);
  return work;
}

ProcessGroupCohort::Work ProcessGroupCohort::start(Job job, Collective call, How how) {
  ++sequence_;
  call.timeout_s = how.timeout > milliseconds(0) ? seconds_of(how.timeout) : timeout_s_.load();
  const bool is_watched = is_timed_ || recorder_ != nullptr || (job.title != nullptr && at::hasCallbacks());
  if (!how.is_async && !is_watched) {
    wait_for_call([&](bindings::Interrupt* interrupt) { return ranks_->call(std::move(call), interrupt); },
                  job.finish);
    return {};
  }
  Work work = launch(std::move(job), std::move(call), {});
  if (how.is_async) return work;
  work->wait();
  return {};
}

ProcessGroupCohort::Work ProcessGroupCohort::start(Job job, Message call) {
  if (call.timeout_s <= 0) call.timeout_s = timeout_s_;
  std::string peers;
  if (recorder_ != nullptr) {
    const std::string peer = call.is_from_anybody ? "-1" : std::to_string(call.peer);
    peers = std::to_string(getRank()) + (call.is_send ? "->" : "<-") + peer;
  }
  return launch(std::move(job), call, peers);
}

void ProcessGroupCohort::setTimeout(milliseconds timeout) {
  TORCH_CHECK(timeout > milliseconds(0), "cohort: a timeout is above zero, not ", timeout.count(), " ms");
  timeout_s_ = seconds_of(timeout);
  options_->timeout = timeout;
}

c10d::ErrorType ProcessGroupCohort::getError() {
  const Outcome outcome = ranks_->state();
  if (outcome.failure.empty()) return c10d::ErrorType::SUCCESS;
  return outcome.is_late ? c10d::ErrorType::TIMEOUT : c10d::ErrorType::COMM_ERROR;
}

void ProcessGroupCohort::abort() {
  ranks_->abort("rank " + std::to_string(getRank()) + " has aborted process group '" + ranks_->name() + "'");
}

at::Tensor ProcessGroupCohort::allocateTensor(long count, at::TensorOptions options) {
  TORCH_CHECK(options.device().is_cpu(), "cohort: allocates tensors in CPU memory, not on ",
              options.device());
  return scratch_.flat(count, c10::typeMetaToScalarType(options.dtype()));
}

ProcessGroupCohort::Settings ProcessGroupCohort::settings_of(const c10::intrusive_ptr<Options>& options,
                                                             const std::string& name) const {
  const milliseconds own = options_->timeout;
  Settings settings{options && options->timeout > milliseconds(0) ? options->timeout : own, name};
  if (options && !options->group_name.empty()) settings.name = options->group_name;
  return settings;
}

ProcessGroupCohort::Group ProcessGroupCohort::make_group(const std::vector<int>& ranks,
                                                         const std::string& name,
                                                         const c10::intrusive_ptr<Options>& options) {
  Settings settings = settings_of(options, name);
  std::vector<std::uint32_t> members;
  for (const int rank : ranks) {
    TORCH_CHECK(rank >= 0 && rank < getSize(), "cohort: a group of rank ", rank, ", but the ranks are 0 to ",
                getSize() - 1);
    members.push_back(static_cast<std::uint32_t>(rank));
    const auto place = static_cast<std::size_t>(rank);
    const auto& of_world = options_->global_ranks_in_group;
    settings.world_ranks.push_back(of_world.empty() ? place : of_world.at(place));
  }
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) return {};
  std::shared_ptr<Ranks> made;
  wait_without_lock([&](bindings::Interrupt* interrupt) { made = ranks_->group(members, name, interrupt); });
  return c10::make_intrusive<ProcessGroupCohort>(std::move(made), static_cast<int>(own - ranks.begin()),
                                                 static_cast<int>(ranks.size()), settings);
}

ProcessGroupCohort::Group ProcessGroupCohort::split(const c10::intrusive_ptr<c10d::Store>&,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& options) {
  return make_group(ranks, name_of("split", ranks), options);
}

ProcessGroupCohort::Group ProcessGroupCohort::shrink(const std::vector<std::int64_t>& excluded, int flags,
                                                     const c10::intrusive_ptr<Options>& options) {
  std::vector<int> ranks;
  for (int rank = 0; rank < getSize(); ++rank)
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) ranks.push_back(rank);
  TORCH_CHECK(std::find(ranks.begin(), ranks.end(), getRank()) != ranks.end(), "cohort: shrink without rank ",
              getRank(), " was called by it: only those that stay call it");
  if ((flags & kShrinkAborts) != 0) abort();
  return make_group(ranks, name_of("shrunken", ranks), options);
}

void ProcessGroupCohort::set_meeting(Meeting meeting) { meeting_of_module() = std::move(meeting); }

ProcessGroupCohort::Group ProcessGroupCohort::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const c10::intrusive_ptr<Options>& options,
                                                    const int& rank, const int& size) {
  return meeting_of_module()(store, rank, size, settings_of(options, "merged"));
}

}  // namespace cohort::torch_face
