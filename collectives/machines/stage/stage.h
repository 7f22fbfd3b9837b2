// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/stage/case_memory.h>
#include <cohort/engine/clock.h>
#include <cohort/engine/task.h>
#include <cohort/net/rank.h>
#include <cohort/streams/stream_watcher.h>

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace cohort::machine {

/// One stream of one rank: a rank's main stream has the rank's number; sub streams come behind.
using StreamId = StreamWatcher::Stream;

/// Runs the schedules of all ranks in one thread, on one engine without a kernel, and knows at every moment
/// which stream runs: what machines without real memory stand on.
///
/// One stream is resumed at a time, and runs until it waits again. A machine answers what streams wait for
/// with resume_later(); when nothing is left to resume it may move its world on in advance(), and when that
/// does not help either everybody waits for ever: stuck() is told, and all are cancelled.
///
/// Streams are resumed in the order in which they were asked for, or shuffled by a seed; the same seed gives
/// the same run.
///
/// A schedule waits for nothing but its machine. One that does all the same, for a timer, an Event or a task
/// that is no stream, is not resumed by the stage: time does not pass here by itself, and acts_as_running()
/// tells.
///
/// Streams have a place in the tree of forks: the third task of a fork_join of the main stream is "stream 3",
/// the second that this forks is "stream 3.2", and the next fork_join takes the same ones again.
class Stage : public StreamWatcher {
 public:
  explicit Stage(Rank ranks, std::uint64_t seed = 0);
  virtual ~Stage() = default;

  [[nodiscard]] Rank ranks() const noexcept { return ranks_; }
  /// The stream whose code runs now.
  [[nodiscard]] StreamId running() const noexcept final { return running_; }
  [[nodiscard]] Rank rank_of(StreamId stream) const noexcept { return nodes_[stream].rank; }
  /// "main stream", "stream 3", "stream 3.2".
  [[nodiscard]] std::string name_of(StreamId stream) const;
  [[nodiscard]] std::size_t streams() const noexcept { return nodes_.size(); }
  /// Something is wrong and everybody is being cancelled: what runs now only unwinds.
  [[nodiscard]] bool is_ending() const noexcept { return is_ending_; }
  /// The stream has begun and not ended, and waits for no sub stream of its own.
  [[nodiscard]] bool is_at_work(StreamId stream) const noexcept {
    return nodes_[stream].is_active && nodes_[stream].open == 0;
  }
  /// Whether what this rank does now, and begins to wait for if there is a `wait`, is done by the running
  /// stream. False: by a task beside it, or it was resumed by something else than the stage.
  [[nodiscard]] bool acts_as_running(Rank rank, const Operation* wait) const noexcept;

  /// Runs one task per rank to its end, all of them concurrently. Throws what the first one to fail threw.
  void run(std::vector<Task<>> ranks);

  /// A stream that is no rank's code, for what links do by themselves.
  [[nodiscard]] StreamId add_stream(Rank rank);

 protected:
  /// The operation on which `stream` waits is over.
  void resume_later(Operation& operation, StreamId stream) { ready_.push_back({&operation, stream}); }

  virtual void forked(StreamId parent, StreamId child) noexcept = 0;
  virtual void joined(StreamId parent, std::span<const StreamId> children) noexcept = 0;
  /// Moves the world on, as to the next moment at which something happens; false: nothing ever will.
  virtual bool advance() { return false; }
  virtual void stuck() = 0;
  /// What the stream waited for is over. False: it has more to wait for, on the same operation, and is not
  /// resumed yet.
  virtual bool goes_on(Operation&) { return true; }
  /// The run is of no use any more: what has been started unwinds.
  void give_up() noexcept;

 private:
  class NoKernel;
  class NoClock;

  struct Node {
    Rank rank = 0;
    StreamId parent = 0;
    std::uint32_t position = 0;  ///< among the tasks of the parent's fork, from 1; 0: not forked
    std::uint32_t open = 0;      ///< tasks of its own fork
    bool is_active = false;
    const CancelScope* scope = nullptr;  ///< in which it waits
    CaseVector<StreamId> children{};
  };
  struct Ready {
    Operation* operation;
    StreamId stream;
  };

  // StreamWatcher:
  void starts(StreamId parent, const CancelScope& scope) noexcept final;
  void has_started(StreamId parent) noexcept final { running_ = parent; }
  void ends(bool has_failed) noexcept final;
  void joins(StreamId parent) noexcept final;

  bool resume_next() noexcept;
  void end_all() noexcept;

  const Rank ranks_;
  const bool is_shuffled_;
  std::mt19937_64 random_;
  CaseVector<Node> nodes_;
  StreamId running_;
  std::deque<Ready> ready_;
  CancelScope* scope_ = nullptr;
  bool is_ending_ = false;
};

}  // namespace cohort::machine
