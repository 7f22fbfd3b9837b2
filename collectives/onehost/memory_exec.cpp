// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/onehost/memory_exec.h>

#include <cohort/collectives/memory/reduction/reduce.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/system/peer_memory.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/host/touch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace cohort {
namespace {

void fold(const Reducer& self, std::byte* inout, const std::byte* in, std::size_t bytes) noexcept {
  const std::array<const std::byte*, 2> inputs = {inout, in};
  reduce({.type = static_cast<DataType>(self.type),
          .op = static_cast<ReduceOp>(self.op),
          .count = bytes / self.element_bytes,
          .inputs = inputs,
          .outputs = std::span(&inout, 1),
          .average_over = self.average_over});
}

/// What parts of a step are multiples of: threads meet in few cache lines, and no element is cut.
constexpr std::size_t kGrain = 4096;

/// What a step moves, in the bytes of a copy that takes as long.
std::size_t traffic_of(const LocalStep& step) {
  return step.size_bytes() * (step.inputs().size() + step.outputs().size()) / 2;
}

/// How much of each slice of a step there is to do: nothing where nobody asked for an average.
std::size_t moved_bytes_of(const LocalStep& step) {
  const bool is_idle = step.kind() == LocalStep::Kind::finish_average && step.combine().average_over == 0;
  return is_idle ? 0 : step.size_bytes();
}

/// How much of each slice of a step is done between two looks.
std::size_t part_bytes_of(const LocalStep& step) {
  const std::size_t bytes = Pace::kBytesBetweenLooks * 2 / (step.inputs().size() + step.outputs().size());
  return std::max(kGrain, bytes / kGrain * kGrain);
}

}  // namespace

MemoryExec::MemoryExec(Engine& engine, const Membership& membership, LinkOwner& host, Resources& resources)
    : Exec(membership.rank, membership.size),
      engine_(engine),
      membership_(membership),
      host_(host),
      running_(host.running()),
      resources_(resources),
      windows_of_host_(resources.group() == nullptr ? std::span<const WindowTable>{}
                                                    : std::as_const(*resources.group()).windows()),
      stores_trial_(engine.platform().last_level_cache_bytes()),
      workers_(engine) {
  own_plan().goes_round = false;
  own_plan().stage_bytes = resources.buffer_bytes();
  lists_.inputs.resize(membership.size);
  lists_.outputs.resize(membership.size);
}

void MemoryExec::begin(UserWindows user_windows, std::size_t footprint_bytes, std::size_t kind) noexcept {
  own_plan().windows = user_windows;
  stores_ = Stores::cached;
  if (!stores_trial_.is_about(footprint_bytes)) return;
  const std::size_t kind_on_windows = 2 * kind + (plan().maps() ? 1 : 0);
  stores_ = stores_trial_.begin(kind_on_windows, footprint_bytes, engine_.now());
}

void MemoryExec::end() noexcept {
  if (stores_trial_.is_running()) stores_trial_.end(engine_.now());
}

void MemoryExec::set_cores(CoreSupply cores, std::size_t ranks_of_host) noexcept {
  HostPlan& plan = own_plan();
  plan.cores = cores;
  plan.goes_round = goes_round(ranks_of_host, plan.has_core_each());
  const std::size_t in_cache = std::max(tuning::stages::kStaged, size() * tuning::stages::kLeastStaged);
  plan.stage_bytes =
      cores == CoreSupply::idle ? resources_.buffer_bytes() : std::min(resources_.buffer_bytes(), in_cache);
}

Reducer MemoryExec::reducer(const Combine& combine) const noexcept {
  return {.fold = fold,
          .type = static_cast<std::uint8_t>(combine.type),
          .op = static_cast<std::uint8_t>(combine.op),
          .element_bytes = static_cast<std::uint8_t>(size_bytes(combine.type))};
}

Task<> MemoryExec::phase() {
  COHORT_ASSERT(resources_.is_host_wide(), "a schedule over links meets in a phase, which needs Scope::node");
  if (!may_go_on()) return until_cause();
  host::HostGroup& group = *resources_.group();
  group.arrive_at_phase();
  return group.wait_for_phase();
}

Task<> MemoryExec::until_cause() { co_await engine_.sleep_until(kNever); }

Task<> MemoryExec::pull(Rank peer, Slice to, Slice from) {
  if (plan().maps())
    co_await copy_from(peer, to, from);
  else
    co_await copy_by_kernel(ByKernel::pull, peer, to, from);
}

Task<> MemoryExec::push(Rank peer, Slice to, Slice from) {
  if (plan().maps())
    co_await copy_to(peer, to, from);
  else
    co_await copy_by_kernel(ByKernel::push, peer, from, to);
}

/// Nothing if the peer has withdrawn its memory, or if its process has ended, which may have left its number
/// to another one: that is not written to, nor believed.
std::optional<int> MemoryExec::copy_part_by_kernel(ByKernel way, Rank peer, std::byte* here,
                                                   std::uintptr_t there, std::size_t bytes) {
  const std::uint32_t process = membership_.peers[peer].visible_process;
  const bool pulls = way == ByKernel::pull;
  host::Touch touch;
  if ((!pulls && host_.has_process_ended(peer)) || !touch.begin(*resources_.group(), peer))
    return std::nullopt;
  const int failure =
      pulls ? read_peer_memory(process, here, there, bytes) : write_peer_memory(process, here, there, bytes);
  const bool is_another = pulls && host_.has_process_ended(peer);
  if (!touch.end() || is_another) return std::nullopt;
  return failure;
}

/// A peer that cannot be reached is gone or going: its end, or else this error, cancels the collective.
Task<> MemoryExec::copy_by_kernel(ByKernel way, Rank peer, Slice here, Slice there) {
  const auto address = reinterpret_cast<std::uintptr_t>(resources_.group()->windows(peer).at(there));
  std::byte* const local = running_.windows.at(here);
  for (std::size_t at = 0; at < here.bytes; at += tuning::stages::kKernelBetweenLooks) {
    if (engine_.pace().is_turn_over()) co_await engine_.let_others_run();
    const std::size_t bytes = std::min(tuning::stages::kKernelBetweenLooks, here.bytes - at);
    const std::optional<int> failure = copy_part_by_kernel(way, peer, local + at, address + at, bytes);
    if (failure == 0) continue;
    if (failure) host_.link_failed(peer, failure_of_kernel(way, peer, *failure, local + at, bytes));
    co_await engine_.sleep_until(kNever);  // until the cause comes
  }
}

Error MemoryExec::failure_of_kernel(ByKernel way, Rank peer, int error_number, std::byte* here,
                                    std::size_t bytes) const {
  const bool pulls = way == ByKernel::pull;
  if (error_number == EFAULT) {
    const bool is_own = !is_own_memory(here, bytes, pulls);
    return Error(
               ErrorKind::InvalidArgument,
               fmt::format("not all of the call's buffer is memory of rank {}'s process, or it may not be {} "
                           "(EFAULT)",
                           is_own ? rank() : peer, pulls == is_own ? "written to" : "read"))
        .with_culprit(is_own ? rank() : peer);
  }
  const Error error = system_error(error_number, fmt::format("{} {} bytes of rank {}'s memory",
                                                             pulls ? "reading" : "writing", bytes, peer));
  return blamed_on(error, rank(), peer);
}

std::byte* MemoryExec::address(const PlacedSlice& place) const noexcept {
  return (place.rank == rank() ? running_.windows : windows_of_host_[place.rank]).at(place.slice);
}

template <class Address>
std::span<const Address> MemoryExec::addresses(std::span<const PlacedSlice> places, std::size_t at,
                                               std::vector<Address>& kept) const {
  if (kept.size() < places.size()) kept.resize(places.size());
  Address* next = kept.data();
  for (const PlacedSlice& place : places) *next++ = address(place) + at;
  return {kept.data(), places.size()};
}

Stores MemoryExec::stores_of(const LocalStep& step) const noexcept {
  if (stores_ == Stores::cached) return Stores::cached;
  const bool is_final = step.outputs().size() == 1 || plan().maps();
  return is_final && is_user_window(step.outputs().front().slice.window) ? stores_ : Stores::cached;
}

void MemoryExec::perform(const LocalStep& step) {
  const std::size_t bytes = moved_bytes_of(step);
  if (bytes == 0) return;
  if (recorded_ == nullptr) return part_of(step, 0, bytes, lists_).run();
  StepList::Step& recorded = recorded_->add(step);
  recorded.addressed = part_of(step, 0, bytes, recorded.lists);
}

AddressedStep MemoryExec::part_of(const LocalStep& step, std::size_t at, std::size_t bytes,
                                  AddressedStep::Lists& lists) const {
  return {.kind = step.kind(),
          .combine = step.combine(),
          .bytes = bytes,
          .inputs = addresses(step.inputs(), at, lists.inputs),
          .outputs = addresses(step.outputs(), at, lists.outputs),
          .stores = stores_of(step)};
}

/// What the schedule touches, whose touch is around it, a peer may have withdrawn since the last look.
bool MemoryExec::may_go_on() const noexcept {
  const host::HostGroup* const group = resources_.group();
  return group == nullptr || !group->is_touching() || !group->is_any_withdrawn();
}

bool MemoryExec::perform_awhile(LocalStep& step) {
  const bool is_shared = moved_bytes_of(step) != 0 && workers_.may_help(traffic_of(step));
  return !is_shared && perform_parts_awhile(step, false);
}

/// The parts of a step that was begun are all done here, whoever could help with it by now.
bool MemoryExec::perform_parts_awhile(LocalStep& step, bool has_waited) {
  const auto perform_next = [&](std::size_t at, std::size_t bytes) {
    part_of(step, at, bytes, lists_).run();
  };
  return engine_.pace().move_awhile(step.done_bytes(), moved_bytes_of(step), part_bytes_of(step),
                                    traffic_of(step), has_waited, perform_next);
}

Task<> MemoryExec::perform_rest(LocalStep& step) {
  if (step.done_bytes() == 0 && workers_.may_help(traffic_of(step))) {
    co_await share(step);
    co_return;
  }
  do {
    co_await engine_.let_others_run();
    if (!may_go_on()) co_await engine_.sleep_until(kNever);  // until the cause of the peer's failure comes
  } while (!perform_parts_awhile(step, true));
}

Task<> MemoryExec::share(const LocalStep& step) {
  const host::HostGroup* const group = resources_.group();
  const host::HostGroup* const touched = group != nullptr && group->is_touching() ? group : nullptr;
  const CopyWorkers::Work work = [&](std::size_t begin, std::size_t end) {
    thread_local AddressedStep::Lists lists;  // kept so that steps allocate nothing
    if (touched != nullptr && touched->is_any_withdrawn()) return false;
    part_of(step, begin, end - begin, lists).run();
    return true;
  };
  const bool is_whole = co_await workers_.share(step.size_bytes(), kGrain, traffic_of(step), work);
  if (!is_whole) co_await engine_.sleep_until(kNever);  // until the cause of the peer's failure comes
}

Task<> MemoryExec::combine_in_turns(const AnyAlgorithm& algorithm, const OperatorArguments& arguments) {
  record(in_turns_, [&] { algorithm.combine(*this, arguments); });
  for (const StepList::Step& recorded : in_turns_.steps()) {
    const AddressedStep& addressed = recorded.addressed;
    if (addressed.kind == LocalStep::Kind::reduce) {
      LocalStep step(*this, recorded.outputs, recorded.inputs, addressed.combine);
      co_await step;
    } else {
      LocalStep step(*this, addressed.kind, recorded.outputs.front(), recorded.inputs.front(),
                     addressed.combine);
      co_await step;
    }
  }
}

}  // namespace cohort
