// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/memory_exec.h>

#include <cohort/collectives/memory/reduction/reduce.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/system/peer_memory.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace cohort {
namespace {

void fold(const Reducer& self, std::byte* inout, const std::byte* in, std::size_t bytes) noexcept {
  reduce_into(static_cast<DataType>(self.type), static_cast<ReduceOp>(self.op), inout, in,
              bytes / self.element_bytes);
}

/// What parts of a step are multiples of: threads meet in few cache lines.
constexpr std::size_t kWorkerGrain = 4096;

bool is_user_window(WindowId window) { return window == WindowId::send || window == WindowId::recv; }

}  // namespace

MemoryExec::MemoryExec(Engine& engine, const Membership& membership, LinkHost& host, Resources& resources)
    : Exec(membership.rank, membership.size),
      engine_(engine),
      membership_(membership),
      host_(host),
      running_(host.running()),
      resources_(resources),
      windows_of_host_(resources.group() == nullptr ? std::span<const WindowTable>{}
                                                    : std::as_const(*resources.group()).windows()),
      cache_bytes_(engine.platform().last_level_cache_bytes()),
      workers_(engine) {
  inputs_.resize(membership.size);
  outputs_.resize(membership.size);
}

void MemoryExec::begin(UserWindows user_windows, std::size_t footprint_bytes) noexcept {
  user_windows_ = user_windows;
  is_beyond_cache_ = footprint_bytes > cache_bytes_;
}

Reducer MemoryExec::reducer(const Combine& combine) const noexcept {
  return {.fold = fold,
          .type = static_cast<std::uint8_t>(combine.type),
          .op = static_cast<std::uint8_t>(combine.op),
          .element_bytes = static_cast<std::uint8_t>(size_bytes(combine.type))};
}

void MemoryExec::finish_average(const Combine& combine, const Slice& sum) {
  if (combine.average_over == 0 || sum.empty()) return;
  cohort::finish_average(combine.type, running_.windows.at(sum), sum.bytes / size_bytes(combine.type),
                         combine.average_over);
}

Task<> MemoryExec::phase() {
  COHORT_ASSERT(resources_.is_host_wide(),
                "a schedule over links meets in a phase, which needs Ground::mapped");
  host::HostGroup& group = *resources_.group();
  group.arrive_at_phase();
  return group.wait_for_phase();
}

/// A peer that cannot be read is gone or going: its end, or else this error, cancels the collective.
Task<> MemoryExec::pull(Rank peer, Slice to, Slice from) {
  if (maps_user_windows()) {
    perform(copy_from(peer, to, from));
    co_return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(resources_.group()->windows(peer).at(from));
  std::byte* const local = running_.windows.at(to);
  const int failure = read_peer_memory(membership_.peers[peer].visible_process, local, address, to.bytes);
  if (failure == 0) co_return;
  host_.link_failed(
      peer, system_error(failure, fmt::format("reading {} bytes of rank {}'s memory", to.bytes, peer)));
  co_await engine_.sleep_until(kNever);
}

std::byte* MemoryExec::address(const PlacedSlice& place) const noexcept {
  return (place.rank == rank() ? running_.windows : windows_of_host_[place.rank]).at(place.slice);
}

template <class Address>
std::span<const Address> MemoryExec::addresses(std::span<const PlacedSlice> places,
                                               std::vector<Address>& kept) const {
  if (kept.size() < places.size()) kept.resize(places.size());
  Address* next = kept.data();
  for (const PlacedSlice& place : places) *next++ = address(place);
  return {kept.data(), places.size()};
}

void MemoryExec::perform(const LocalStep& step) {
  const std::size_t bytes = step.outputs().front().slice.bytes;
  if (bytes == 0) return;
  const bool is_final = step.outputs().size() == 1 || maps_user_windows();
  const bool streams = is_beyond_cache_ && is_final && is_user_window(step.outputs().front().slice.window);
  const Stores stores = streams ? Stores::streaming : Stores::cached;
  step.kind() == LocalStep::Kind::copy ? perform_copy(step, stores) : perform_reduction(step, stores);
}

void MemoryExec::perform_copy(const LocalStep& step, Stores stores) {
  const PlacedSlice& output = step.outputs().front();
  std::byte* const to = address(output);
  const std::byte* const from = address(step.inputs().front());
  if (to == from) return;
  const std::size_t bytes = output.slice.bytes;
  workers_.may_help(bytes) ? share_copy(to, from, bytes, stores) : cohort::copy(to, from, bytes, stores);
}

/// Apart, as share().
void MemoryExec::share_copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores) {
  workers_.share(bytes, kWorkerGrain, bytes, [&](std::size_t begin, std::size_t end) {
    cohort::copy(to + begin, from + begin, end - begin, stores);
  });
}

void MemoryExec::perform_reduction(const LocalStep& step, Stores stores) {
  const std::span<const PlacedSlice> inputs = step.inputs();
  const std::span<const PlacedSlice> outputs = step.outputs();
  const Combine& combine = step.combine();
  const std::size_t bytes = outputs.front().slice.bytes;
  const Reduction whole{.type = combine.type,
                        .op = combine.op,
                        .count = bytes >> std::countr_zero(size_bytes(combine.type)),
                        .inputs = addresses(inputs, inputs_),
                        .outputs = addresses(outputs, outputs_),
                        .average_over = combine.average_over,
                        .stores = stores};
  const std::size_t traffic = bytes * (inputs.size() + outputs.size()) / 2;
  workers_.may_help(traffic) ? share(whole, traffic) : cohort::reduce(whole);
}

/// Apart, so that the path of small messages stays short.
void MemoryExec::share(const Reduction& whole, std::size_t traffic) {
  const std::size_t element = size_bytes(whole.type);
  const auto reduce_part = [&](std::size_t begin, std::size_t end) {
    // Of this thread, kept so that steps allocate nothing.
    thread_local std::vector<const std::byte*> inputs;
    thread_local std::vector<std::byte*> outputs;
    inputs.assign(whole.inputs.begin(), whole.inputs.end());
    outputs.assign(whole.outputs.begin(), whole.outputs.end());
    for (const std::byte*& input : inputs) input += begin;
    for (std::byte*& output : outputs) output += begin;
    Reduction part = whole;
    part.count = (end - begin) / element;
    part.inputs = inputs;
    part.outputs = outputs;
    cohort::reduce(part);
  };
  workers_.share(whole.count * element, kWorkerGrain, traffic, reduce_part);
}

}  // namespace cohort
