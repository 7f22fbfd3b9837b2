// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/tuning.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace cohort {

/// Threads that help the loop's thread with one large copy or reduction, where cores are idle.
///
/// Nobody waits for a worker that does not come: parts are claimed one by one, the caller takes what is left,
/// and waits only for parts that a worker has begun. Between its parts others on the engine have their turns,
/// while workers go on.
///
/// The first large steps are done in turn with and without help, and workers go on only if they made them
/// faster.
///
/// Threads: one caller. Workers run on the processors that the caller may use when they are started, by the
/// first large step.
class CopyWorkers : Immovable {
 public:
  /// A step below this many bytes is over before a sleeping worker is awake.
  static constexpr std::size_t kLeastBytes = tuning::copying::kShareFrom;

  /// Of the engine's thread, by its clock.
  explicit CopyWorkers(Engine& engine) noexcept : engine_(engine) {}
  ~CopyWorkers();

  /// Before the first step: how many there may be. None without it.
  void allow(unsigned most) noexcept { most_ = most; }

  /// Whether there is anybody to share a step with now: one is shared at a time.
  [[nodiscard]] bool may_help(std::size_t bytes) noexcept {
    return bytes >= kLeastBytes && most_ != 0 && !is_sharing_ && !engine_.is_oversubscribed() &&
           has_threads();
  }

  /// Works on [begin, end) of a step, on any thread; false: it may not, nor on anything more. Must not throw.
  using Work = std::function<bool(std::size_t begin, std::size_t end)>;
  /// Calls work(begin, end) for ranges that together are [0, count), begun at multiples of `grain`, each
  /// once, on several threads. `bytes` of all is what the number of ranges is chosen by. A task that is
  /// cancelled ends when no range is worked on any more. False: work() was, and the rest is left. Requires
  /// may_help(bytes). `work` outlives the task.
  Task<bool> share(std::size_t count, std::size_t grain, std::size_t bytes, const Work& work);

  /// How many there may be for a rank, of `ranks_per_core` ranks on this host: the cores that no rank needs,
  /// shared among them.
  [[nodiscard]] static unsigned most_for(double ranks_per_core) noexcept;

 private:
  /// What is to be done, in one word so that claiming a part also shows of which step it is.
  struct Step {
    std::uint32_t number = 0;
    std::uint16_t parts = 0;
    std::uint16_t next = 0;
  };
  static_assert(std::atomic<Step>::is_always_lock_free);

  /// A step from where workers may claim its parts to where none is worked on any more.
  class Sharing : Immovable {
   public:
    using Part = std::function<void(std::size_t)>;
    Sharing(CopyWorkers& workers, std::size_t parts, const Part& part);
    /// What nobody has begun is left.
    ~Sharing();

   private:
    CopyWorkers& workers_;
  };

  /// Large steps of one kind on trial.
  struct Trial {
    unsigned steps = 0;
    double ns_per_byte = 0;  ///< of the fastest
    void take(std::size_t bytes, Duration time) noexcept;
  };

  [[nodiscard]] bool has_threads() noexcept;
  /// While both are on trial, whichever had fewer steps; then the better one.
  [[nodiscard]] bool is_shared_next() const noexcept;
  [[nodiscard]] static std::size_t part_of(std::size_t count, std::size_t grain, std::size_t bytes) noexcept;
  void start() noexcept;
  void work();
  bool work_on_one_part() noexcept;

  Engine& engine_;
  unsigned most_ = 0;
  bool has_started_ = false;
  bool is_sharing_ = false;
  Trial alone_;
  Trial shared_;
  std::vector<std::thread> threads_;

  std::atomic<Step> step_{Step{}};
  std::atomic<std::uint32_t> done_{0};     ///< parts of the running step
  std::atomic<std::uint32_t> summons_{0};  ///< counts steps; workers sleep on it
  std::atomic<bool> is_over_{false};
  const std::function<void(std::size_t)>* part_ = nullptr;
};

}  // namespace cohort
