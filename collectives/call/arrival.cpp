// SPDX-License-Identifier: Apache-2.0
// How the ranks of one host meet at the start of a collective, and how small data travels with that.
#include <cohort/collectives/call/communicator_core.h>
#include <cohort/collectives/memory/reduction/reduce.h>

#include <cstring>

namespace cohort {
namespace {

// What a slot says about its owner's user windows when they do not travel in it.
constexpr std::uint32_t kSendInSegment = 1;
constexpr std::uint32_t kRecvInSegment = 2;

struct WindowAddresses {
  std::uint64_t send_offset = 0;
  std::uint64_t recv_offset = 0;
  std::uint64_t send_address = 0;  ///< means something within one process only
  std::uint64_t recv_address = 0;
};

}  // namespace

void CommunicatorCore::announce(const Call& call) noexcept {
  host::HostGroup& group = *resources_.group();
  host::ArrivalSlot& slot = group.own_arrival(running_.sequence);
  slot.signature = running_.signature;
  slot.reachable = 0;
  const bool by_reference = refers(call);
  if (uses_slots(call) && !by_reference) {
    const bool has_data = call.op != Operator::broadcast || call.root == membership_.rank;
    if (has_data && call.send_bytes != 0)
      std::memcpy(slot.payload(call.send_bytes), call.send, call.send_bytes);
  } else {
    WindowAddresses where;
    where.send_address = reinterpret_cast<std::uintptr_t>(call.send);
    where.recv_address = reinterpret_cast<std::uintptr_t>(call.recv);
    if (const auto offset = heap_.offset_of(call.send, call.send_bytes)) {
      slot.reachable |= kSendInSegment;
      where.send_offset = *offset;
    }
    if (const auto offset = heap_.offset_of(call.recv, call.recv_bytes)) {
      slot.reachable |= kRecvInSegment;
      where.recv_offset = *offset;
    }
    if (by_reference) slot.reachable |= kByReference;
    std::memcpy(slot.payload(sizeof where), &where, sizeof where);
  }
  group.announce(running_.sequence);
}

bool CommunicatorCore::agrees(Rank peer) const noexcept {
  return resources_.group()->arrival(peer, running_.sequence).signature == running_.signature;
}

/// Everybody on this host is here and runs the same. A disagreement ends by the cancellation that its verdict
/// brings.
Task<> CommunicatorCore::meet() {
  host::HostGroup& group = *resources_.group();
  for (const Rank peer : exec_.peers()) {
    if (!group.is_mapped(peer)) continue;
    co_await group.arrived(peer, running_.sequence);
    if (agrees(peer)) continue;
    const Signature theirs = group.arrival(peer, running_.sequence).signature;
    health_.report_mismatch(peer, running_.sequence, theirs);
    co_await engine_.sleep_until(kNever);
  }
}

/// Finds one rank's user windows; false if they are not mapped here.
bool CommunicatorCore::bind_windows_of(Rank peer, const Call& call) noexcept {
  host::HostGroup& group = *resources_.group();
  const std::uint64_t segment_bytes = group.layout().size_bytes();
  const host::ArrivalSlot& slot = group.arrival(peer, running_.sequence);
  WindowAddresses where;
  std::memcpy(&where, slot.payload(sizeof where), sizeof where);
  bool all_mapped = true;
  const auto bind = [&](WindowId window, std::uint32_t flag, std::uint64_t offset, std::uint64_t address,
                        std::size_t bytes) {
    if (bytes == 0) return;
    const bool in_segment =
        (slot.reachable & flag) != 0 && offset <= segment_bytes && bytes <= segment_bytes - offset;
    // Not mapped: an address in the peer's process, which only the kernel may follow.
    std::byte* base = reinterpret_cast<std::byte*>(address);
    if (in_segment && !is_one_process_) base = group.segment(peer).at(offset);
    all_mapped = all_mapped && (in_segment || is_one_process_);
    group.windows(peer).bind(window, base, bytes);
  };
  if (call.op != Operator::broadcast)
    bind(WindowId::send, kSendInSegment, where.send_offset, where.send_address, call.send_bytes);
  bind(WindowId::recv, kRecvInSegment, where.recv_offset, where.recv_address, call.recv_bytes);
  return all_mapped;
}

/// Finds every peer's user windows, and how all of them are reached: the same on every rank.
UserWindows CommunicatorCore::bind_peer_windows(const Call& call) noexcept {
  host::HostGroup& group = *resources_.group();
  bool all_mapped = true;
  for (Rank peer = 0; peer < membership_.size; ++peer) all_mapped = bind_windows_of(peer, call) && all_mapped;
  if (all_mapped) return UserWindows::mapped;
  if (!pulls(call)) return UserWindows::staged;
  // One that is mapped here has an address there as well.
  for (Rank peer = 0; peer < membership_.size; ++peer) {
    WindowAddresses where;
    std::memcpy(&where, group.arrival(peer, running_.sequence).payload(sizeof where), sizeof where);
    group.windows(peer).bind(WindowId::send, reinterpret_cast<std::byte*>(where.send_address),
                             call.send_bytes);
    group.windows(peer).bind(WindowId::recv, reinterpret_cast<std::byte*>(where.recv_address),
                             call.recv_bytes);
  }
  return UserWindows::readable;
}

/// Whether the kernel is to copy: by what one rank reads of another in one go.
bool CommunicatorCore::pulls(const Call& call) const noexcept {
  const std::size_t unit =
      call.op == Operator::all_reduce ? call.send_bytes / membership_.size : call.message_bytes();
  return unit >= reach_.pull.from_bytes();
}

void CommunicatorCore::reduce_slots(const Call& call, std::size_t at, std::size_t count) noexcept {
  host::HostGroup& group = *resources_.group();
  for (Rank rank = 0; rank < membership_.size; ++rank)
    slot_inputs_[rank] = group.arrival(rank, running_.sequence).payload(call.send_bytes) + at;
  reduce_inputs(call, count, call.recv);
}

/// Of `slot_inputs_`, in rank order.
void CommunicatorCore::reduce_inputs(const Call& call, std::size_t count, std::byte* to) noexcept {
  std::byte* const output[] = {to};
  reduce(Reduction{.type = call.type,
                   .op = call.reduce,
                   .count = count,
                   .inputs = slot_inputs_,
                   .outputs = output,
                   .average_over = call.reduce == ReduceOp::avg ? membership_.size : 0,
                   .stores = Stores::cached});
}

/// All data lies in the slots: take what this rank gets. In rank order, so that all ranks get the same bits.
void CommunicatorCore::combine_slots(const Call& call) noexcept {
  host::HostGroup& group = *resources_.group();
  const std::size_t element = size_bytes(call.type);
  switch (call.op) {
    case Operator::barrier: return;
    case Operator::broadcast:
      if (call.root != membership_.rank && call.recv_bytes != 0)
        std::memcpy(call.recv, group.arrival(call.root, running_.sequence).payload(call.send_bytes),
                    call.recv_bytes);
      return;
    case Operator::all_reduce: reduce_slots(call, 0, call.count); return;
    case Operator::reduce_scatter:
      reduce_slots(call, membership_.rank * call.recv_bytes, call.recv_bytes / element);
      return;
    case Operator::all_gather:
      if (call.send_bytes == 0) return;
      for (Rank rank = 0; rank < membership_.size; ++rank)
        std::memcpy(call.recv + rank * call.send_bytes,
                    group.arrival(rank, running_.sequence).payload(call.send_bytes), call.send_bytes);
      return;
  }
}

}  // namespace cohort
