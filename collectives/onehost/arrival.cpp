// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/onehost/arrival.h>

#include <cohort/collectives/onehost/arrival_flags.h>
#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/host/touch.h>
#include <cohort/net/protocol_error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace cohort {
namespace {

struct WindowAddresses {
  std::uint64_t send_offset = 0;
  std::uint64_t recv_offset = 0;
  std::uint64_t send_address = 0;  ///< means something within one process only, or to the kernel
  std::uint64_t recv_address = 0;
};
static_assert(sizeof(WindowAddresses) <= sizeof(host::ArrivalSlot::beside_stamp));

std::size_t footprint_of(const Call& call, Rank ranks) {
  const Extent extent = call.op->extent({.count = call.count, .ranks = ranks, .root = call.root}, call.root);
  return size_bytes(call.type) * ranks * ((call.op->has_one_buffer ? 0 : extent.send) + extent.recv);
}

/// Whether all that travels is this rank's input, and none of it is overwritten before it is read: as in
/// place, where blocks are moved.
bool may_read_given(const Call& call) noexcept {
  const auto send = reinterpret_cast<std::uintptr_t>(call.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(call.recv);  // 0 where blocks lie apart
  const bool is_apart = send + call.send_bytes <= recv || recv + call.recv_bytes <= send;
  return call.send_bytes == call.announced_bytes && (call.op->combines || is_apart);
}

}  // namespace

Arrival::Arrival(Engine& engine, const Membership& membership, host::HostGroup& group, LinkOwner& host,
                 RunningOperation& running, MemoryExec& exec, const SharedHeap& heap, const Reach& reach)
    : engine_(engine),
      membership_(membership),
      group_(group),
      host_(host),
      running_(running),
      exec_(exec),
      heap_(heap),
      reach_(reach),
      filling_(engine, membership, group, running) {
  exec_.reserve_lists();
}

bool Arrival::has_mapped_windows(const Call& call) const noexcept {
  // Where a rank gives or gets nothing, there is nothing to map, wherever its empty span points.
  const auto is_mapped = [&](const std::byte* at, std::size_t bytes) {
    return bytes == 0 || heap_.offset_of(at, bytes);
  };
  return is_one_process_ || (is_mapped(call.send, call.send_bytes) && is_mapped(call.recv, call.recv_bytes));
}

bool Arrival::refers(const Call& call) const noexcept {
  return (engine_.is_oversubscribed() ? plan_.may_refer_on_shared_cores : plan_.may_refer) &&
         has_mapped_windows(call);
}

/// Who refers needs everybody for the phase, which may begin before all whom this rank waits for have come.
/// Of what a root gives, the root knows whether there will be one, and the others as it has come.
bool Arrival::may_go_ahead(const Call& call) const noexcept {
  const bool is_root_of_all = call.op->flow == Flow::from_root && membership_.rank == call.root;
  return plan_.may_run_ahead && !(is_root_of_all && refers_);
}

bool Arrival::is_read(Rank of, const Call& call) const noexcept {
  return call.op.is_read(call.form(membership_.size), of);
}

bool Arrival::may_complete_here(const Call& call) const noexcept {
  if (!reach_.is_host_wide) return false;
  switch (call.algorithm->announces()) {
    case Announces::nothing: return false;
    case Announces::data: return true;
    case Announces::windows:
      return call.message_bytes() <= tuning::slots::kMostInPlace && !engine_.is_oversubscribed() &&
             has_mapped_windows(call);
  }
  return false;
}

bool Arrival::announce_here(const Call& call) noexcept {
  if (is_ahead_ && !catch_up_here()) return false;
  announce(call);
  return true;
}

/// Who writes its slot of the last call but one has seen everybody at the last one.
void Arrival::announce(const Call& call) noexcept {
  host::ArrivalSlot& slot = group_.own_arrival(running_.sequence);
  slot.signature = running_.signature;
  slot.reachable = 0;
  announced_ = running_.signature;
  const bool travels = call.algorithm->announces() == Announces::data;
  refers_ = travels && refers(call);
  some_refer_ = refers_ && is_read(membership_.rank, call);
  some_are_filling_ = false;
  is_ahead_ = goes_ahead_ = may_go_ahead(call);
  filling_.begin();
  if (travels) filling_.take_places(call, plan_.ring_bytes);
  is_bound_ = lacks_memory_ = false;
  if (travels && !refers_) {
    const bool is_given = call.op.gives_to_others(membership_.rank, membership_.size, call.root);
    if (is_given && call.send_bytes != 0) filling_.bring_first(call, may_read_given(call));
  } else {
    WindowAddresses where;
    where.send_address = reinterpret_cast<std::uintptr_t>(call.send);
    where.recv_address = reinterpret_cast<std::uintptr_t>(call.recv);
    if (const auto offset = heap_.offset_of(call.send, call.send_bytes)) {
      slot.reachable |= announcement::kSendInSegment;
      where.send_offset = *offset;
    }
    if (const auto offset = heap_.offset_of(call.recv, call.recv_bytes)) {
      slot.reachable |= announcement::kRecvInSegment;
      where.recv_offset = *offset;
    }
    if (refers_) slot.reachable |= announcement::kByReference;
    std::memcpy(slot.beside_stamp, &where, sizeof where);
  }
  group_.announce(running_.sequence);
  progress_ = Progress::announced;
  done_ = {};
  has_waited_ = false;
  filling_.bring_rest(call);
  if (travels && !refers_) expect_data(call);
}

bool Arrival::take_arrival(Rank peer, const Call& call) noexcept {
  const host::ArrivalSlot& slot = group_.arrival(peer, running_.sequence);
  some_refer_ = some_refer_ || ((slot.reachable & announcement::kByReference) != 0 && is_read(peer, call));
  some_are_filling_ = some_are_filling_ || filling_.is_in_pieces(peer);
  return slot.signature == running_.signature;
}

bool Arrival::complete_here(const Call& call) noexcept {
  if (progress_ == Progress::begun && !announce_here(call)) return false;
  if (!meet_here(call) || !combine(call)) return false;
  if (progress_ == Progress::combined && group_.spin_for_phase()) finish(call);
  return progress_ == Progress::over;
}

bool Arrival::meet_here(const Call& call) noexcept {
  do {
    for (const Rank peer : exec_.peers()) {
      if (!is_awaited(peer, call)) continue;
      if (!group_.spin_for_arrival(peer, running_.sequence) || !take_arrival(peer, call)) return false;
    }
  } while (has_to_wait_for_all());
  return true;
}

bool Arrival::has_to_wait_for_all() noexcept {
  if (!goes_ahead_ || !some_refer_) return false;
  goes_ahead_ = is_ahead_ = false;
  return true;
}

bool Arrival::catch_up_here() noexcept {
  const std::uint64_t last = running_.sequence - 1;
  for (const Rank peer : exec_.peers())
    if (!group_.spin_for_arrival(peer, last) || group_.arrival(peer, last).signature != announced_)
      return false;
  is_ahead_ = false;
  return true;
}

bool Arrival::has_caught_up() noexcept {
  if (!is_ahead_) return true;
  for (const Rank peer : exec_.peers()) {
    const std::uint64_t last = running_.sequence;
    if (!group_.has_arrived(peer, last)) return false;
    const Signature theirs = group_.arrival(peer, last).signature;
    if (theirs != announced_) host_.mismatch(peer, last, theirs);
  }
  is_ahead_ = false;
  return true;
}

/// All come to the last call before this rank announces the next one.
Task<> Arrival::catch_up() {
  const std::uint64_t last = running_.sequence - 1;
  for (const Rank peer : exec_.peers()) {
    co_await group_.arrived(peer, last);
    if (group_.arrival(peer, last).signature != announced_) co_await disagree(peer, last);
  }
  is_ahead_ = false;
}

Task<> Arrival::disagree(Rank peer, std::uint64_t sequence) {
  const Signature theirs = group_.arrival(peer, sequence).signature;
  host_.mismatch(peer, sequence, theirs);
  co_await engine_.sleep_until(kNever);
}

Task<bool> Arrival::attend(const Call& call) {
  if (progress_ == Progress::begun) {
    if (is_ahead_) co_await catch_up();
    announce(call);
  }
  if (progress_ == Progress::announced) {
    co_await meet(call);
    if (!combine(call)) co_await end_by_cause();
  }
  while (progress_ == Progress::filling) {
    if (engine_.is_turn_over()) co_await engine_.let_others_run();
    has_waited_ = true;
    co_await filling_.until_all_have_come(exec_.peers(), call);
    if (!combine(call)) co_await end_by_cause();
  }
  if (progress_ == Progress::bound) co_await combine_in_turns(call);
  if (progress_ == Progress::combined) {
    co_await group_.wait_for_phase();
    finish(call);
  }
  co_return progress_ == Progress::over;
}

Task<> Arrival::end_by_cause() {
  if (lacks_memory_) throw std::bad_alloc();
  co_await engine_.sleep_until(kNever);
}

/// All whom this rank needs are here and run the same.
Task<> Arrival::meet(const Call& call) {
  do {
    for (const Rank peer : exec_.peers()) {
      if (!includes(peer) || !is_awaited(peer, call)) continue;
      co_await group_.arrived(peer, running_.sequence);
      if (!take_arrival(peer, call)) co_await disagree(peer, running_.sequence);
    }
  } while (has_to_wait_for_all());
}

bool Arrival::combine(const Call& call) noexcept {
  if (!reach_.is_host_wide) {
    exec_.begin(windows_, 0);
    return true;
  }
  if (call.algorithm->announces() == Announces::data) return combine_announced(call);
  windows_ = bind_windows(call);
  const bool is_first = !std::exchange(is_bound_, true);  // attend() may combine once more
  if (is_first && windows_ == UserWindows::staged) exec_.count_staged_call();
  exec_.begin(windows_, footprint_of(call, membership_.size), call.op.index());
  const bool is_local = call.algorithm->announces() == Announces::windows && windows_ == UserWindows::mapped;
  if (!is_local) return true;
  return combine_on_windows(call);
}

WindowTable& Arrival::windows_of(Rank rank) noexcept {
  return rank == membership_.rank ? running_.windows : group_.windows(rank);
}

/// Where everybody's data lies, unless an arrival says that it stays where it is. This rank finds its own
/// where the caller gave it: the lines of its slot are on their way to peers, and would have to come back.
void Arrival::bind_slots(const Call& call) noexcept {
  for (Rank rank = 0; rank < membership_.size; ++rank) {
    const bool is_given = rank == membership_.rank && may_read_given(call);
    std::byte* const payload =
        is_given ? call.send : group_.payload(rank, running_.sequence, call.announced_bytes);
    windows_of(rank).bind(WindowId::slot, payload, call.announced_bytes);
    exec_.take_announcement(rank, call.announced_bytes, false);
  }
  exec_.begin(UserWindows::staged, 0);
}

/// What is to be done if nobody's data stays where it is. Found while the own announcement travels, since
/// nothing waits for it then; but where ranks share cores, a peer may want this one. So it serves the next
/// call of that kind on the same memory, too, unless its data goes round a ring.
void Arrival::expect_data(const Call& call) noexcept {
  Expected& expected = this->expected();
  const std::byte* const place = group_.payload(membership_.rank, running_.sequence, call.announced_bytes);
  if (expected.is_for(call, running_.signature, place)) return;
  bind_slots(call);
  expected.algorithm = nullptr;
  try {
    record_steps(call, expected);
  } catch (const std::bad_alloc&) {
    lacks_memory_ = true;
    return;
  }
  expected.algorithm = Expected::may_serve(call) ? call.algorithm : nullptr;
  expected.count = call.count;
  expected.signature = running_.signature;
  expected.send = call.send;
  expected.recv = call.recv;
  expected.place = place;
}

void Arrival::record_steps(const Call& call, Expected& expected) {
  const OperatorArguments arguments = call.arguments(membership_.size);
  exec_.record(expected.steps, [&] { call.algorithm->combine(exec_, arguments); });
  expected.meets_again = call.algorithm->meets_again(exec_, call.announced_bytes);
  if (!expected.meets_again) return;
  exec_.record(expected.after_phase, [&] { call.algorithm->finish(exec_, arguments); });
}

/// Finds the inputs, some of which stayed where they were. False if somebody's cannot have.
bool Arrival::take_references(const Call& call) noexcept {
  bind_slots(call);
  for (Rank rank = 0; rank < membership_.size; ++rank) {
    host::ArrivalSlot& slot = group_.arrival(rank, running_.sequence);
    if ((slot.reachable & announcement::kByReference) == 0) continue;
    if (!plan_.may_refer || !bind_windows_of(rank, call)) {
      report_nonsense(rank);
      return false;
    }
    // The words of a reference lie before what its owner leaves in the slot for itself.
    std::byte* const left = group_.payload_beyond_words(rank, running_.sequence);
    windows_of(rank).bind(WindowId::slot, left, call.announced_bytes);
    exec_.take_announcement(rank, call.announced_bytes, true);
  }
  return true;
}

/// Everybody's input lies in a slot, or where it was, mapped. Who refers alone to what nobody else reads
/// needs no phase.
bool Arrival::combine_announced(const Call& call) noexcept {
  if (!some_refer_) {
    if (refers_) expect_data(call);
    if (lacks_memory_) return false;
    if (!combine_recorded(call)) {
      progress_ = Progress::filling;
    } else if (expected().meets_again) {
      group_.arrive_at_phase();
      progress_ = Progress::combined;
    } else {
      progress_ = Progress::over;
    }
    return true;
  }
  if (some_are_filling_ && !filling_.have_all_come(exec_.peers(), call)) {
    progress_ = Progress::filling;
    return true;
  }
  lacks_memory_ = false;  // for steps that are not needed
  if (!take_references(call)) return false;
  exec_.begin(exec_.all_referred() ? UserWindows::mapped : UserWindows::staged, 0);
  const bool leaves_turns =
      engine_.is_oversubscribed() && call.announced_bytes > tuning::slots::kBetweenLooks;
  if (!leaves_turns) return combine_on_windows(call);
  progress_ = Progress::bound;
  return true;
}

/// All data is in slots, or on its way there: false if it is so beyond a short spin, or others on the engine
/// want their turns.
bool Arrival::combine_recorded(const Call& call) noexcept {
  if (!some_are_filling_ && call.announced_bytes <= tuning::slots::kBetweenLooks) {
    expected().steps.run();
    return true;
  }
  const std::size_t part = some_are_filling_ ? SlotFilling::kPieceBytes : tuning::slots::kBetweenLooks;
  const auto has_come = [this](Rank peer, std::size_t bytes) { return filling_.has_come(peer, bytes); };
  return exec_.run_as_it_comes(expected().steps, done_, part, has_come, has_waited_);
}

/// A peer's words on where its buffers lie cannot be followed. The collective ends by what comes of this.
void Arrival::report_nonsense(Rank rank) noexcept {
  const Error error = protocol_error("rank {} announces buffers that are not where it says", rank);
  host_.link_failed(rank, blamed_on(error, membership_.rank, rank));
}

/// What is large is left to combine_in_turns().
bool Arrival::combine_on_windows(const Call& call) noexcept {
  if (!plan_.is_at_once) {
    progress_ = Progress::bound;
    return true;
  }
  host::Touch touch;
  if (!touch.begin(group_)) return false;
  call.algorithm->combine(exec_, call.arguments(membership_.size));
  if (!touch.end()) return false;
  group_.arrive_at_phase();
  progress_ = Progress::combined;
  return true;
}

Task<> Arrival::combine_in_turns(const Call& call) {
  host::Touch touch;
  if (!touch.begin(group_)) co_await engine_.sleep_until(kNever);  // until the cause comes
  const OperatorArguments arguments = call.arguments(membership_.size);
  co_await exec_.combine_in_turns(*call.algorithm, arguments);
  if (!touch.end()) co_await engine_.sleep_until(kNever);
  group_.arrive_at_phase();
  progress_ = Progress::combined;
}

void Arrival::finish(const Call& call) noexcept {
  if (call.algorithm->announces() == Announces::data && !some_refer_)
    expected().after_phase.run();
  else
    call.algorithm->finish(exec_, call.arguments(membership_.size));
  progress_ = Progress::over;
}

/// Finds one rank's user windows; false if they are not mapped here.
bool Arrival::bind_windows_of(Rank peer, const Call& call) noexcept {
  SharedMemory& segment = group_.segment(peer).memory();
  const std::uint64_t segment_bytes = segment.size_bytes();
  const host::ArrivalSlot& slot = group_.arrival(peer, running_.sequence);
  WindowAddresses where;
  std::memcpy(&where, slot.beside_stamp, sizeof where);
  bool all_mapped = true;
  const auto bind = [&](WindowId window, std::uint32_t flag, std::uint64_t offset, std::uint64_t address,
                        std::size_t bytes) {
    const bool in_segment =
        (slot.reachable & flag) != 0 && offset <= segment_bytes && bytes <= segment_bytes - offset;
    // Not mapped: an address in the peer's process, which only the kernel may follow.
    std::byte* base = reinterpret_cast<std::byte*>(address);
    if (in_segment && !is_one_process_) base = segment.data() + offset;
    all_mapped = all_mapped && (bytes == 0 || in_segment || is_one_process_);
    group_.windows(peer).bind(window, base, bytes);
  };
  const Extent extent = call.op->extent(call.form(membership_.size), peer);
  const std::size_t element = size_bytes(call.type);
  bind(WindowId::send, announcement::kSendInSegment, where.send_offset, where.send_address,
       extent.send * element);
  bind(WindowId::recv, announcement::kRecvInSegment, where.recv_offset, where.recv_address,
       extent.recv * element);
  return all_mapped;
}

/// The same for the kernel, which follows addresses of the peer's process.
void Arrival::bind_addresses_of(Rank peer, const Call& call) noexcept {
  WindowAddresses where;
  std::memcpy(&where, group_.arrival(peer, running_.sequence).beside_stamp, sizeof where);
  const Extent extent = call.op->extent(call.form(membership_.size), peer);
  const std::size_t element = size_bytes(call.type);
  group_.windows(peer).bind(WindowId::send, reinterpret_cast<std::byte*>(where.send_address),
                            extent.send * element);
  group_.windows(peer).bind(WindowId::recv, reinterpret_cast<std::byte*>(where.recv_address),
                            extent.recv * element);
}

/// Finds every peer's user windows, and how all of them are reached: the same on every rank.
UserWindows Arrival::bind_windows(const Call& call) noexcept {
  bool all_mapped = true;
  for (Rank peer = 0; peer < membership_.size; ++peer) all_mapped = bind_windows_of(peer, call) && all_mapped;
  if (all_mapped) return UserWindows::mapped;
  if (!plan_.pulls) return UserWindows::staged;
  // One that is mapped here has an address there as well.
  for (Rank peer = 0; peer < membership_.size; ++peer) bind_addresses_of(peer, call);
  return UserWindows::readable;
}

}  // namespace cohort
