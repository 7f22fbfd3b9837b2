// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/stage/stage.h>

#include <memory>
#include <span>
#include <vector>

namespace cohort::check {

using machine::StreamId;

/// The `at`-th thing that a stream did.
struct Moment {
  StreamId stream = 0;
  std::uint32_t at = 0;
};

/// What has certainly happened before some moment: of each stream, everything up to some moment of it. Main
/// streams are kept by rank, others only as far as no later join covers them.
class Past {
 public:
  struct Entry {
    StreamId stream;
    std::uint32_t at;
  };

  explicit Past(Rank ranks) : mains(ranks, 0) {}

  [[nodiscard]] std::uint32_t find(StreamId stream) const noexcept;
  void raise(StreamId stream, std::uint32_t at);
  /// Takes over whatever the other one has beyond this one.
  void merge(const Past& other);
  /// The same for entries in any order, which it sorts.
  void merge(std::vector<Entry>& entries);

  std::vector<std::uint32_t> mains;
  std::vector<Entry> others;  ///< sorted by stream
  std::size_t prune_at = 16;  ///< entries from which it is worth looking for covered ones

 private:
  void merge_sorted(const std::vector<Entry>& entries);
};

/// A moment and its past, as a message carries them.
struct Stamp {
  std::shared_ptr<const Past> past;
  Moment self;
};

/// The order that holds in every run of the schedules: within a stream, from fork and to join, from a post to
/// its wait, from sent bytes to whoever receives them. Vector clocks over streams.
///
/// What is not ordered here happens in either order on some machine. Copies of a past are shared until one
/// changes.
class Order {
 public:
  explicit Order(Rank ranks);

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
  struct State {
    std::uint32_t now = 0;
    StreamId parent = 0;
    Absorbed first{0, 0};  ///< `from` is 0 while there is none. Most streams are joined once
    std::shared_ptr<Past> past;
    std::vector<Absorbed> later;
  };

  State& state(StreamId stream);
  static Past& own_past(State& state);
  /// Drops what later joins cover.
  void prune(Past& past, Moment self) const;
  /// The join of its stream that came next after the moment, or null.
  [[nodiscard]] const Absorbed* join_of(Moment moment) const noexcept;
  /// Whether a main stream's part of the past, or `self`, has the moment by way of joins.
  [[nodiscard]] bool is_joined(const Past& past, Moment self, Moment moment) const noexcept;
  [[nodiscard]] bool covers(const Past& past, Moment self, Moment moment) const noexcept;

  const Rank ranks_;
  std::shared_ptr<Past> nothing_;
  std::vector<State> states_;
  std::vector<Past::Entry> heard_;  ///< kept for its memory
};

}  // namespace cohort::check
