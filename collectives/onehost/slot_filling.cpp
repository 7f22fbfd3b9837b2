// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/onehost/slot_filling.h>

#include <cohort/collectives/onehost/arrival_flags.h>

#include <algorithm>

namespace cohort {

/// Where some only bring data and others wait for it, these read what is there of a large input while the
/// rest follows. Ranks that share a core have nobody who reads meanwhile.
void SlotFilling::bring_first_of_large(const Call& call, bool finds_own_given) noexcept {
  kept_at_ = kept_end_ = 0;
  if (finds_own_given && call.op->kept != nullptr) {
    const Stretch kept = call.op->kept(call.form(membership_.size), membership_.rank);
    kept_at_ = kept.at * size_bytes(call.type);
    kept_end_ = kept_at_ + kept.elements * size_bytes(call.type);
  }
  is_all_here_ = call.send_bytes <= kPieceBytes || !call.op.is_one_way() || engine_.is_oversubscribed();
  first_bytes_ = is_all_here_ ? call.send_bytes : kPieceBytes;
  if (!is_all_here_) {
    group_.own_arrival(running_.sequence).reachable |= announcement::kInPieces;
    group_.tell_filled(running_.sequence, first_bytes_);
  }
  copy_given(call, 0, first_bytes_);
}

void SlotFilling::bring_rest_of_large(const Call& call) noexcept {
  for (std::size_t at = first_bytes_; at < call.send_bytes;) {
    const std::size_t bytes = std::min(kPieceBytes, call.send_bytes - at);
    copy_given(call, at, bytes);
    at += bytes;
    if (at != call.send_bytes) group_.tell_filled(running_.sequence, at);
  }
  group_.tell_full(running_.sequence, call.send_bytes);
}

void SlotFilling::copy_given(const Call& call, std::size_t at, std::size_t bytes) const noexcept {
  std::byte* const slot = own_slot(call);
  const auto copy = [&](std::size_t begin, std::size_t end) {
    if (begin < end) copy_bytes(slot + begin, call.send + begin, end - begin);
  };
  copy(at, std::min(at + bytes, kept_at_));
  copy(std::max(at, kept_end_), at + bytes);
}

bool SlotFilling::is_in_pieces(Rank peer) const noexcept {
  return (group_.arrival(peer, running_.sequence).reachable & announcement::kInPieces) != 0;
}

bool SlotFilling::has_come(Rank peer, std::size_t bytes) const noexcept {
  const host::ArrivalSlot& slot = group_.arrival(peer, running_.sequence);
  return !is_in_pieces(peer) || group_.spin_for(slot.filled, static_cast<std::uint32_t>(bytes));
}

bool SlotFilling::have_all_come(std::span<const Rank> peers, const Call& call) const noexcept {
  return std::ranges::all_of(
      peers, [&](Rank peer) { return !is_needed(peer, call) || has_come(peer, given_bytes(peer, call)); });
}

Task<> SlotFilling::until_all_have_come(std::span<const Rank> peers, const Call& call) {
  for (const Rank peer : peers) {
    if (!is_needed(peer, call) || !is_in_pieces(peer)) continue;
    co_await group_.until(group_.arrival(peer, running_.sequence).filled, given_bytes(peer, call));
  }
}

std::uint32_t SlotFilling::given_bytes(Rank rank, const Call& call) const noexcept {
  const std::size_t elements = call.op->extent(call.form(membership_.size), rank).send;
  return static_cast<std::uint32_t>(elements * size_bytes(call.type));
}

}  // namespace cohort
