// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/host_group.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/loop/yield_budget.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/engine/system/processor.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::host {
namespace {

/// A peer that touches memory for longer than this is stopped, by a debugger or a signal.
constexpr Duration kLongestTouch = std::chrono::seconds(5);
constexpr Duration kTouchLook = std::chrono::microseconds(50);

}  // namespace

HostGroup::HostGroup(Engine& engine, const Membership& membership, std::span<const Rank> members,
                     const Layout& layout, std::shared_ptr<HostMemory> memory, bool is_isolated)
    : engine_(engine),
      rank_(membership.rank),
      members_(members.begin(), members.end()),
      layout_(layout),
      memory_(std::move(memory)),
      segments_(membership.size),
      doorbells_(membership.size),
      arrivals_(membership.size),
      windows_(membership.size),
      in_process_(membership.size, false) {
  for (const Rank member : members_) {
    in_process_[member] = member == rank_ || (membership.shares_process(member) && !is_isolated);
    // Waiting in place for somebody on this engine would be waiting for oneself.
    may_spin_ = may_spin_ && (member == rank_ || !membership.shares_engine(member));
  }
  engine_.add_source(*this);
}

HostGroup::HostGroup(Engine& engine, const Membership& membership, std::span<const Rank> members,
                     std::size_t buffer_bytes, std::size_t heap_bytes, bool is_isolated)
    : HostGroup(
          engine, membership, members, Layout(membership.size, buffer_bytes, heap_bytes),
          std::make_shared<HostMemory>(
              engine, membership, members,
              HostSizes{sizeof(RankLines), Layout(membership.size, buffer_bytes, heap_bytes).size_bytes()},
              is_isolated),
          is_isolated) {
  bind_places_of(rank_, rank_, 0, memory_->lines(rank_));
}

HostGroup::HostGroup(Engine& engine, const Membership& membership, std::span<const Rank> members,
                     std::size_t buffer_bytes, const Regions& regions)
    : HostGroup(engine, membership, members, Layout::of_group(membership.size, buffer_bytes),
                regions.root.memory_, regions.is_isolated) {
  const std::size_t own_begin = regions.begins[rank_];
  memory_->part(memory_->rank()).commit(own_begin, layout_.slot(0));
  for (const Rank member : members_) {
    const Rank owner = regions.owners[member];
    const SharedMemory& part = memory_->part(owner);
    const std::uint64_t begin = regions.begins[member];
    const bool fits = layout_.size_bytes() <= part.size_bytes() &&
                      begin <= part.size_bytes() - layout_.size_bytes() &&
                      begin % memory_map::page_bytes() == 0;
    if (!fits)
      throw Error(ErrorKind::ProtocolError,
                  fmt::format("{} says that its part of the group is at {} of its segment of {} bytes",
                              membership.peers[member].describe(), begin, part.size_bytes()))
          .with_culprit(member);
    bind_places_of(member, owner, begin, part.data() + begin);
  }
}

HostGroup::~HostGroup() { unlink(); }

void HostGroup::adopt(Rank peer, std::vector<Descriptor> descriptors) {
  memory_->adopt(peer, std::move(descriptors));
  bind_places_of(peer, peer, 0, memory_->lines(peer));
}

void HostGroup::bind_places_of(Rank member, Rank owner, std::size_t begin, std::byte* lines) noexcept {
  segments_[member] = Segment(memory_->part(owner), begin, lines, layout_);
  doorbells_[member] = &memory_->doorbell(owner);
  for (std::size_t turn = 0; turn < kTurns; ++turn)
    arrivals_[member][turn] = &segments_[member].arrival(turn);
  windows_[member].bind(WindowId::ccl_in, segments_[member].at(layout_.ccl_in()), layout_.buffer_bytes());
  windows_[member].bind(WindowId::ccl_out, segments_[member].at(layout_.ccl_out()), layout_.buffer_bytes());
}

void HostGroup::notify_all() noexcept {
  for (const Rank peer : members_)
    if (peer != rank_) notify(peer);
}

void HostGroup::announce(std::uint64_t sequence) noexcept {
  own_arrival(sequence).stamp.store(static_cast<std::uint32_t>(sequence), std::memory_order_seq_cst);
  notify_all();
}

void HostGroup::touch_rings(Rank of, std::size_t bytes) noexcept {
  const auto touch = [&](std::size_t begin, std::size_t size_bytes) {
    for (std::size_t at = 0; at < std::min(bytes, size_bytes); at += kCacheLine) {
      auto* const byte = reinterpret_cast<volatile unsigned char*>(segments_[of].at(begin + at));
      const unsigned char value = *byte;
      if (of == rank_) *byte = value;
    }
  };
  touch(layout_.payload_ring(), PayloadRing::kMostBytes);
  touch(layout_.ccl_in(), layout_.buffer_bytes());
  touch(layout_.ccl_out(), layout_.buffer_bytes());
}

void HostGroup::tell_full(std::uint64_t sequence, std::size_t bytes) noexcept {
  own_arrival(sequence).filled.store(static_cast<std::uint32_t>(bytes), std::memory_order_seq_cst);
  notify_all();
}

void HostGroup::forget_arrivals() noexcept {
  for (const std::uint64_t sequence : {0, 1}) own_arrival(sequence).stamp.store(0, std::memory_order_relaxed);
}

// Either this rank sees that a peer has withdrawn, or that peer sees that this rank touches: both store first
// and look then, all in one order.

bool HostGroup::begin_touching(std::span<const Rank> owners) noexcept {
  if (touching_++ == 0) own().access().touches.store(1, std::memory_order_seq_cst);
  if (!is_any_withdrawn(owners)) return true;
  end_touching();
  return false;
}

void HostGroup::end_touching() noexcept {
  COHORT_ASSERT(touching_ != 0, "rank {} ends touching memory, which it has not begun", rank_);
  if (--touching_ == 0) own().access().touches.store(0, std::memory_order_release);
}

/// Behind all that was read: who has read what an owner has stored since it withdrew sees that, too.
bool HostGroup::is_any_withdrawn(std::span<const Rank> owners) const noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
  return std::ranges::any_of(owners, [this](Rank owner) {
    return segments_[owner].access().withdrawn.load(std::memory_order_seq_cst) != 0;
  });
}

Task<> HostGroup::withdraw(std::function<bool(Rank)> is_gone) {
  if (!memory_->is_backed()) co_return;  // nobody has met here
  own().access().withdrawn.store(1, std::memory_order_seq_cst);
  const TimePoint until = after(engine_.now(), kLongestTouch);
  for (const Rank peer : members_) {
    if (!is_mapped(peer) || peer == rank_) continue;
    const Counter& touches = segments_[peer].access().touches;
    while (touches.load(std::memory_order_seq_cst) != 0 && !is_gone(peer) && engine_.now() < until)
      co_await engine_.sleep_for(kTouchLook);
  }
  std::atomic_thread_fence(std::memory_order_release);  // before whatever the user stores there next
}

void HostGroup::arrive_at_phase() noexcept {
  own().phase().store(++phase_, std::memory_order_seq_cst);
  notify_all();
}

bool HostGroup::spin_for_phase() const noexcept {
  for (const Rank peer : members_) {
    if (peer == rank_) continue;
    const Counter& phase = segments_[peer].phase();
    if (!has_reached(phase.load(std::memory_order_acquire), phase_) && !spin_until(phase, phase_))
      return false;
  }
  return true;
}

Task<> HostGroup::wait_for_phase() {
  for (const Rank peer : members_) {
    if (peer == rank_) continue;
    co_await until(segments_[peer].phase(), phase_);
  }
}

bool HostGroup::spin_until(const Counter& counter, std::uint32_t target) const noexcept {
  const auto is_there = [&] { return has_reached(counter.load(std::memory_order_acquire), target); };
  if (!may_spin_) return is_there();
  if (engine_.is_oversubscribed()) {
    YieldBudget& budget = YieldBudget::of_this_thread();
    if (!budget.pays() && !engine_.spin_budget().is_fixed()) return is_there();
    for (unsigned yields = 0; yields < tuning::waiting::kYieldsOnSharedCores; ++yields) {
      for (unsigned look = 0; look < tuning::waiting::kLooksOnSharedCores; ++look) {
        if (!is_there()) continue;
        if (yields != 0) budget.note_answer();
        return true;
      }
      engine_.platform().yield_core();
      if (yields % tuning::waiting::kYieldsInARow == tuning::waiting::kYieldsInARow - 1 &&
          engine_.is_turn_over())
        break;
    }
    return is_there();
  }
  for (unsigned looks = 0; looks < tuning::waiting::kEagerLooks;
       looks += tuning::waiting::kEagerLooksInARow) {
    for (unsigned look = 0; look < tuning::waiting::kEagerLooksInARow; ++look)
      if (is_there()) return true;
    if (!engine_.may_spin_on()) return is_there();
  }
  for (unsigned look = 0; look < tuning::waiting::kPatientLooks; ++look) {
    if (is_there()) return true;
    processor::relax();
    const bool asks = look % tuning::waiting::kLooksInARow == tuning::waiting::kLooksInARow - 1;
    if (asks && (engine_.is_turn_over() || !engine_.may_spin_on())) return is_there();
  }
  return is_there();
}

bool HostGroup::poll() noexcept {
  bool progress = false;
  waits_.for_each([&](CounterWait& wait) {
    if (!wait.is_over()) return;
    wait.unlink();
    wait.operation_.end();
    progress = true;
  });
  // One that finds nonsense fails the collective, and with it what the others wait for.
  progress |= watchers_.poll([this] { return engine_.is_turn_over(); });
  return progress;
}

/// A rank that waits for nothing here need not be woken by peers: its slots and signals keep until it looks.
bool HostGroup::arm() noexcept {
  if (waits_.empty() && watchers_.empty()) return true;
  memory_->listener().fall_asleep();
  return !poll();
}

}  // namespace cohort::host
