// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/flight_recorder.h>

#include <torch/csrc/distributed/c10d/FlightRecorderDetail.hpp>

#include <ATen/ATen.h>

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace cohort::torch_face {
namespace {

/// What an entry asks about a call on a device, which has none here: entries are told of their ends.
struct NoEvent {
  static bool query() { return false; }
};

/// Torch's template, once more: its own instance is hidden in libtorch_cpu.so.
using Recorder = c10d::FlightRecorder<NoEvent>;

/// Numbers of messages begin here: the analyser takes neighbours with one number, be it a collective's or a
/// message's, for one batch.
constexpr std::uint64_t kFirstMessage = 1'000'000'000;

std::atomic<bool> is_silent{false};

/// A child of fork has a recorder whose lock nobody holds, and none of its parent's calls.
void expect_forks_of_recorder() {
  static const int once =
      ::pthread_atfork([] { Recorder::get()->mutex_.lock(); }, [] { Recorder::get()->mutex_.unlock(); },
                       [] {
                         Recorder::get()->mutex_.unlock();
                         Recorder::get()->reset_all();
                       });
  TORCH_CHECK(once == 0, "cohort: no handler of forks can be registered: error ", once);
}

std::size_t next_id() {
  static std::atomic<std::size_t> next{0};
  return next++;
}

/// As the analyser knows them: it refuses other backends than torch's, and other names of calls.
std::string name_of(const GroupRecord::Call& call) {
  constexpr std::string_view kBackend = "gloo:";
  using c10d::OpType;
  std::string_view name = call.title;
  name.remove_prefix(name.find(':') + 1);
  if (call.type == OpType::ALLGATHER_COALESCED) name = "ALLGATHER_coalesced";
  if (call.type == OpType::ALLREDUCE) name = "all_reduce";  // also of sparse tensors, and of buckets
  if (call.type == OpType::RECVANYSOURCE) name = "recv";
  std::string text{kBackend};
  text += name;
  if (!call.peers.empty()) text += ' ' + call.peers;
  return text;
}

using Tensors = GroupRecord::Tensors;

/// As many of these as there are ranks, behind each other.
at::Tensor of_ranks(std::size_t ranks, const at::Tensor& one) {
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(ranks)};
  sizes.insert(sizes.end(), one.sizes().begin(), one.sizes().end());
  return at::empty(sizes, one.options().device(at::kMeta));
}

/// A list of the ranks' tensors, as the one that it would be: the analyser compares how much there is.
Tensors as_one(const Tensors& tensors) {
  if (tensors.size() < 2) return tensors;
  const at::Tensor& first = tensors[0];
  const auto is_alike = [&](const at::Tensor& tensor) { return tensor.sizes() == first.sizes(); };
  if (std::all_of(tensors.begin(), tensors.end(), is_alike)) return {of_ranks(tensors.size(), first)};
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return {at::empty({count}, first.options().device(at::kMeta))};
}

bool is_sparse(const GroupRecord::Call& call) { return !call.inputs.empty() && call.inputs[0].is_sparse(); }

/// What the call is given, without what is kept or shown besides.
Tensors inputs_of(const GroupRecord::Call& call, std::size_t ranks) {
  if (is_sparse(call)) return {call.inputs[0]};
  if (call.type != c10d::OpType::SCATTER) return call.inputs;
  const bool is_root = call.inputs.size() > 1;
  return is_root ? Tensors{of_ranks(ranks, call.outputs[0])} : Tensors{};
}

Tensors outputs_of(const GroupRecord::Call& call) {
  using c10d::OpType;
  const bool is_list =
      call.type == OpType::ALLGATHER || call.type == OpType::GATHER || call.type == OpType::ALLTOALL;
  return is_list ? as_one(call.outputs) : call.outputs;
}

}  // namespace

std::shared_ptr<GroupRecord> GroupRecord::make_if_wanted(int rank, std::vector<std::uint64_t> world_ranks) {
  if (c10d::getCvarInt({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, 0) <= 0) return nullptr;
  expect_forks_of_recorder();
  return std::make_shared<GroupRecord>(rank, std::move(world_ranks));
}

void GroupRecord::fall_silent() noexcept { is_silent = true; }

GroupRecord::GroupRecord(int rank, std::vector<std::uint64_t> world_ranks)
    : rank_(rank),
      world_ranks_(std::move(world_ranks)),
      id_(next_id()),
      status_(std::make_shared<c10d::ProcessGroupStatus>()) {}

void GroupRecord::record_ranks(const Names& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_ == names) return;
  known_ = names;
  Recorder::get()->record_pg_ranks(names, world_ranks_);
}

std::shared_ptr<RecordedCall> GroupRecord::begin(const Names& names, const Call& call) {
  if (is_silent) return nullptr;
  record_ranks(names);
  const bool is_message = c10d::isP2POp(call.type);
  const std::uint64_t message = is_message ? kFirstMessage + messages_++ : 0;
  Recorder& recorder = *Recorder::get();
  const auto made = recorder.recordWithResetEnabled(
      id_, names, call.ordinal, message, ++calls_, name_of(call), inputs_of(call, world_ranks_.size()),
      outputs_of(call), nullptr, nullptr,
      std::chrono::milliseconds(static_cast<std::int64_t>(call.timeout_s * 1000)), status_, is_message);
  if (!made.id || !made.reset_epoch) return nullptr;
  if (!is_message) {
    const std::lock_guard<std::mutex> lock(recorder.mutex_);
    status_->lastEnqueuedSeq = static_cast<std::int64_t>(call.ordinal);
    status_->lastEnqueuedWorkName = c10d::opTypeToString(call.type);
  }
  return std::make_shared<RecordedCall>(shared_from_this(), *made.id, *made.reset_epoch, call.ordinal,
                                        is_message);
}

void GroupRecord::dump_failure() noexcept {
  if (is_silent || is_dumped_.exchange(true)) return;
  try {
    if (!c10d::getCvarBool({"TORCH_NCCL_DUMP_ON_TIMEOUT"}, true)) return;
    const bool includes_stacks = c10d::getCvarBool(c10d::TORCH_INCLUDE_STACK_TRACE, true);
    const bool only_active = c10d::getCvarBool(c10d::TORCH_INCLUDE_ONLY_ACTIVE, false);
    const auto place = static_cast<std::size_t>(rank_);
    const int world_rank = place < world_ranks_.size() ? static_cast<int>(world_ranks_[place]) : rank_;
    c10d::DebugInfoWriter::getWriter(world_rank).write(dump_fr_trace(true, includes_stacks, only_active));
  } catch (const std::exception& error) {
    LOG(ERROR) << "cohort: what the flight recorder holds was not written: " << error.what();
  }
}

/// Nothing, where later calls have the entry's place in the buffer.
template <class Function>
void RecordedCall::change(const Function& function) noexcept {
  try {
    Recorder& recorder = *Recorder::get();
    const std::lock_guard<std::mutex> lock(recorder.mutex_);
    Recorder::Entry& entry = recorder.entries_.at(recorder.getIdxFromId(id_, epoch_));
    function(entry.id_ == id_ && entry.reset_epoch_ == epoch_ ? &entry : nullptr);
  } catch (const std::exception& error) {
    LOG(ERROR) << "cohort: a call's entry in the flight recorder was not brought up to date: "
               << error.what();
  }
}

void RecordedCall::start() noexcept {
  change([&](Recorder::Entry* entry) {
    const auto ordinal = static_cast<std::int64_t>(ordinal_);
    if (!is_message_) group_->status_->lastStartedSeq = std::max(group_->status_->lastStartedSeq, ordinal);
    if (entry != nullptr && !entry->time_discovered_started_)
      entry->time_discovered_started_ = c10::getTime();
  });
}

void RecordedCall::end(bool is_well, int from) noexcept {
  change([&](Recorder::Entry* entry) {
    const auto ordinal = static_cast<std::int64_t>(ordinal_);
    if (is_well && !is_message_)
      group_->status_->lastCompletedSeq = std::max(group_->status_->lastCompletedSeq, ordinal);
    if (entry == nullptr) return;
    entry->retired_ = true;
    if (!is_well) return;
    const c10::time_t now = c10::getTime();
    if (!entry->time_discovered_started_) entry->time_discovered_started_ = now;
    entry->time_discovered_completed_ = now;
    entry->duration_ = static_cast<float>(now - *entry->time_discovered_started_) / 1e6F;
    if (from >= 0)
      entry->profiling_name_.replace(entry->profiling_name_.find("<-") + 2, std::string::npos,
                                     std::to_string(from));
  });
}

std::string dump_fr_trace(bool includes_collectives, bool includes_stacks, bool only_active) {
  return Recorder::get()->dump(std::nullopt, includes_collectives, includes_stacks, only_active);
}

std::string dump_fr_trace_json(bool includes_collectives, bool only_active) {
  return Recorder::get()->dump_json(std::nullopt, includes_collectives, only_active);
}

}  // namespace cohort::torch_face
