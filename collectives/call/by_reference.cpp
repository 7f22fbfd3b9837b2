// SPDX-License-Identifier: Apache-2.0
// Small vectors in memory that peers map: announced by reference, combined where they lie. That spares the
// copy into the slot, whose cache lines the peers hold from the call before last, at the price of one phase.
#include <cohort/collectives/call/communicator_core.h>
#include <cohort/collectives/schedule/placed.h>

#include <algorithm>
#include <cstring>

namespace cohort {
namespace {

/// Below, the copy costs less than the phase.
constexpr std::size_t kLeastBytes = 3 * 1024;
/// Above, what is saved by not suspending does not show.
constexpr std::size_t kMostBytes = 128 * 1024;

}  // namespace

bool CommunicatorCore::refers(const Call& call) const noexcept {
  const bool may = call.op == Operator::all_reduce && reach_.is_host_wide && !engine_.is_crowded() &&
                   call.send_bytes >= kLeastBytes && call.send_bytes <= kMostBytes &&
                   (uses_slots(call) || call.algorithm == AlgorithmId::direct);
  if (!may || is_one_process_) return may;
  return heap_.offset_of(call.send, call.send_bytes) && heap_.offset_of(call.recv, call.recv_bytes);
}

bool CommunicatorCore::has_referred(Rank rank) const noexcept {
  return (resources_.group()->arrival(rank, running_.sequence).reachable & kByReference) != 0;
}

Rank CommunicatorCore::count_referring() const noexcept {
  Rank count = 0;
  for (Rank rank = 0; rank < membership_.size; ++rank) count += has_referred(rank) ? 1 : 0;
  return count;
}

bool CommunicatorCore::combine_arrived(const Call& call) noexcept {
  const Rank referring = count_referring();
  if (referring == 0) {
    combine_slots(call);
    return true;
  }
  host::HostGroup& group = *resources_.group();
  if (!group.begin_touching()) return false;
  const bool is_done = referring == membership_.size ? combine_shares(call) : combine_mixed(call);
  group.end_touching();
  if (!is_done) return false;
  group.arrive_at_phase();
  progress_ = Progress::combined;
  return true;
}

/// Everybody's windows are mapped: my share of all inputs into all outputs, as all_reduce_direct does.
bool CommunicatorCore::combine_shares(const Call& call) noexcept {
  if (bind_peer_windows(call) != UserWindows::mapped) return false;
  const std::size_t element = size_bytes(call.type);
  const auto share = [&](WindowId window) {
    return Blocks({window, 0, call.send_bytes}, membership_.size, element)[membership_.rank];
  };
  const Placed inputs(exec_, share(WindowId::send));
  const Placed outputs(exec_, share(WindowId::recv));
  exec_.begin(UserWindows::mapped, 0);
  exec_.perform(
      exec_.reduce(outputs.slices(), inputs.slices(), Combine(call.type, call.reduce, membership_.size)));
  return true;
}

/// Some vectors lie in slots. Whoever announced its own by reference may not overwrite it yet, so its result
/// waits in its slot, which is empty.
bool CommunicatorCore::combine_mixed(const Call& call) noexcept {
  host::HostGroup& group = *resources_.group();
  for (Rank rank = 0; rank < membership_.size; ++rank) {
    slot_inputs_[rank] = group.arrival(rank, running_.sequence).payload(call.send_bytes);
    if (!has_referred(rank)) continue;
    if (!bind_windows_of(rank, call)) return false;
    slot_inputs_[rank] =
        rank == membership_.rank ? call.send : group.windows(rank).at({WindowId::send, 0, call.send_bytes});
  }
  std::byte* const own_slot = group.own_arrival(running_.sequence).below;
  reduce_inputs(call, call.count, has_referred(membership_.rank) ? own_slot : call.recv);
  return true;
}

void CommunicatorCore::finish_combined(const Call& call) noexcept {
  const bool waits_in_slot = has_referred(membership_.rank) && count_referring() < membership_.size;
  if (waits_in_slot)
    std::memcpy(call.recv, resources_.group()->own_arrival(running_.sequence).below, call.recv_bytes);
}

}  // namespace cohort
