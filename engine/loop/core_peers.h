// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/intrusive_list.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace cohort {

/// Where an engine ran last, in memory that it shares with its peers of the host: the core's number and 1; 0:
/// it does not say. Written by its engine.
using CoreWord = std::atomic<std::int32_t>;
static_assert(CoreWord::is_always_lock_free);

/// The engines of one communicator on this host: the own word, and the peers'. In the list of its engine as
/// long as it lives; outlived by the words.
class CoreGroup final : public ListHook {
 public:
  /// No peer is on this very engine.
  CoreGroup(IntrusiveList<CoreGroup>& list, CoreWord& own, std::vector<const CoreWord*> peers)
      : own_(own), peers_(std::move(peers)) {
    list.push_back(*this);
  }
  /// Nobody has to make room for an engine that has left.
  ~CoreGroup() {
    unlink();
    own_.store(0, std::memory_order_relaxed);
  }

  void add(const CoreWord& peer) { peers_.push_back(&peer); }

  /// Others read the word much more often than it changes.
  void publish(std::int32_t word) noexcept {
    if (own_.load(std::memory_order_relaxed) != word) own_.store(word, std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_peer_on(std::int32_t word) const noexcept {
    return std::ranges::any_of(
        peers_, [word](const CoreWord* peer) { return peer->load(std::memory_order_relaxed) == word; });
  }

 private:
  CoreWord& own_;
  std::vector<const CoreWord*> peers_;
};

/// Which engines of the same jobs share a core with this one.
///
/// A scheduler may put two ranks on one core beside a core where a busy program runs alone, and leave them
/// there: each has its fair share. Who then spins for the other keeps it from answering.
///
/// While this engine runs, one that was last seen on the same core waits for it, sleeps, or has been moved
/// without having run: in each case giving the core away loses little.
///
/// Not where a busy program shares that core, too: it keeps what it is given for its whole slice, and who
/// yields gives up its claim, while who sleeps gets the core back when it wakes.
///
/// Threads: the engine's.
class CorePeers : Immovable {
 public:
  [[nodiscard]] bool empty() const noexcept { return groups_.empty(); }
  [[nodiscard]] IntrusiveList<CoreGroup>& groups() noexcept { return groups_; }

  /// Tells the peers that this engine runs on that core; negative: not known. Whether one of them was there.
  [[nodiscard]] bool meet_on(int core) noexcept {
    const auto word = static_cast<std::int32_t>(core + 1);
    bool has_met = false;
    groups_.for_each([&](CoreGroup& group) {
      group.publish(word);
      has_met = has_met || (word > 0 && group.has_peer_on(word));
    });
    return has_met;
  }

  /// The core was given away and came back.
  void note_hand_over(TimePoint began, TimePoint ended) noexcept {
    if (ended - began >= kLongTurn) taken_until_ = ended + kTakenFor;
  }
  /// Whether somebody who is no peer takes the core when it is given away, as far as is known.
  [[nodiscard]] bool is_core_taken(TimePoint now) const noexcept { return now < taken_until_; }

  /// Longer than peers that wait or work in small parts take, shorter than a scheduler's slice.
  static constexpr Duration kLongTurn = tuning::waiting::kLongYield;
  /// To find out whether it still is costs a slice.
  static constexpr Duration kTakenFor = tuning::waiting::kCoreTakenFor;

 private:
  IntrusiveList<CoreGroup> groups_;
  TimePoint taken_until_{};
};

}  // namespace cohort
