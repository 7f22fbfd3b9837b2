// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/stage/case_memory.h>
#include <cohort/collectives/machines/stage/stage.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace cohort::check {

using machine::StreamId;

/// The `at`-th thing that a stream did.
struct Moment {
  StreamId stream = 0;
  std::uint32_t at = 0;
};

/// What has certainly happened before some moment: of each stream, everything up to some moment of it. Main
/// streams are kept by rank, others only as far as no less deep stream has told of them (Order), nor a join
/// covers them.
class Past : public machine::InCaseMemory {
 public:
  struct Entry {
    StreamId stream;
    std::uint32_t at;
  };

  /// Of a stream that is no main one.
  [[nodiscard]] std::uint32_t find_other(StreamId stream) const noexcept;
  [[nodiscard]] std::uint32_t find(StreamId stream) const noexcept {
    return stream < mains.size() ? mains[stream] : find_other(stream);
  }
  void raise(StreamId stream, std::uint32_t at);
  /// Takes over whatever the other one has beyond this one.
  void merge(const Past& other);
  void merge_mains(const Past& other) noexcept;
  /// The same for entries in any order, which it sorts.
  void merge(machine::CaseVector<Entry>& entries);

  machine::CaseVector<std::uint32_t> mains;
  machine::CaseVector<Entry> others;  ///< sorted by stream
  std::size_t prune_at = 16;          ///< entries from which it is worth looking for covered ones

 private:
  friend class SharedPast;
  void merge_sorted(const machine::CaseVector<Entry>& entries);

  std::uint32_t owners_ = 0;
};

/// One of the owners of a past, which goes back to where it came from when the last one leaves it. All on one
/// thread.
class SharedPast {
 public:
  /// Those that nobody has, kept for their memory. Outlives all pasts that come from it.
  using Spare = std::vector<std::unique_ptr<Past>>;

  SharedPast() noexcept = default;
  SharedPast(Spare& spare, std::unique_ptr<Past> past) noexcept : spare_(&spare), past_(past.release()) {
    past_->owners_ = 1;
  }
  SharedPast(const SharedPast& other) noexcept : spare_(other.spare_), past_(other.past_) {
    if (past_ != nullptr) ++past_->owners_;
  }
  SharedPast(SharedPast&& other) noexcept
      : spare_(other.spare_), past_(std::exchange(other.past_, nullptr)) {}
  SharedPast& operator=(SharedPast other) noexcept {
    std::swap(spare_, other.spare_);
    std::swap(past_, other.past_);
    return *this;
  }
  ~SharedPast() {
    if (past_ != nullptr && --past_->owners_ == 0) spare_->emplace_back(past_);
  }

  [[nodiscard]] const Past& operator*() const noexcept { return *past_; }
  [[nodiscard]] const Past* operator->() const noexcept { return past_; }
  bool operator==(const SharedPast& other) const noexcept { return past_ == other.past_; }
  [[nodiscard]] bool is_shared() const noexcept { return past_->owners_ != 1; }
  /// To change it; only while it is not shared.
  [[nodiscard]] Past& own() noexcept { return *past_; }

 private:
  Spare* spare_ = nullptr;
  Past* past_ = nullptr;
};

/// A moment and its past, as a message carries them.
struct Stamp {
  SharedPast past;
  Moment self;
};

/// The order that holds in every run of the schedules: within a stream, from fork and to join, from a post to
/// its wait, from sent bytes to whoever receives them. Vector clocks over streams.
///
/// What is not ordered here happens in either order on some machine. Copies of a past are shared until one
/// changes. What a stream has heard of deeper ones, forked by streams that others forked, it tells at its
/// next fork or join: from then on nobody carries it along, since whoever knows that moment of the stream
/// knows it.
class Order {
 public:
  explicit Order(Rank ranks);
  ~Order();

  /// The stream does one more thing.
  Moment tick(StreamId stream) { return {stream, ++state(stream).now}; }
  [[nodiscard]] Moment now(StreamId stream) { return {stream, state(stream).now}; }
  [[nodiscard]] Stamp stamp(StreamId stream) { return {state(stream).past, now(stream)}; }

  /// From now on the stream comes after that.
  void learn(StreamId stream, const Stamp& stamp);
  void fork(StreamId parent, StreamId child);
  void join(StreamId parent, std::span<const StreamId> children);
  /// All of these streams have met: each comes after all that any of them did before.
  void meet(const std::vector<StreamId>& streams);

  /// Whether that moment certainly came before what the stream does now.
  [[nodiscard]] bool knows(StreamId stream, Moment moment);
  [[nodiscard]] bool knows(const Stamp& stamp, Moment moment) const {
    return covers(*stamp.past, stamp.self, moment);
  }

 private:
  /// At `until` of the child, a join made it part of the parent's past from `from` on.
  struct Absorbed {
    std::uint32_t until;
    std::uint32_t from;
  };
  /// Whoever knows that moment of a less deep stream knows this stream up to `at`.
  struct Told {
    std::uint32_t at;
    Moment by;
  };
  static constexpr std::uint32_t kNoDepth = 1000;  ///< of what is not forked, nor a main stream
  struct State {
    std::uint32_t now = 0;
    StreamId parent = 0;
    std::uint32_t depth = kNoDepth;
    Absorbed first{0, 0};  ///< `from` is 0 while there is none. Most streams are joined once
    SharedPast past;
    machine::CaseVector<Absorbed> later;
    machine::CaseVector<Told> told;  ///< sorted by `at`
  };

  State& state(StreamId stream) {
    if (stream >= states_.size()) add_states(stream);
    return states_[stream];
  }
  void add_states(StreamId last);
  [[nodiscard]] SharedPast copy_of(const Past& past);
  Past& own_past(State& state);
  /// It knows what it tells, of deeper streams, from its present moment on.
  void tell(StreamId teller);
  /// There is enough to tell.
  [[nodiscard]] bool has_news(StreamId stream) const noexcept;
  void hear_of(std::span<const StreamId> children, const SharedPast& at_fork, Moment parent);
  /// Drops what later joins cover.
  void prune(Past& past, Moment self) const;
  /// The join of its stream that came next after the moment, or null.
  [[nodiscard]] const Absorbed* join_of(Moment moment) const noexcept;
  /// Whether a main stream's part of the past, or `self`, has the moment by way of joins.
  [[nodiscard]] bool is_joined(const Past& past, Moment self, Moment moment) const noexcept;
  /// Whether a less deep stream has told of the moment, at one that the past has.
  [[nodiscard]] bool is_told(const Past& past, Moment self, Moment moment) const noexcept;
  [[nodiscard]] bool covers(const Past& past, Moment self, Moment moment) const noexcept;

  const Rank ranks_;
  SharedPast::Spare spare_;
  SharedPast nothing_;
  machine::CaseVector<State> states_;
  machine::CaseVector<Past::Entry> heard_;     ///< kept for its memory
  machine::CaseVector<std::uint32_t> latest_;  ///< by stream, while it is found out; 0 otherwise
};

}  // namespace cohort::check
