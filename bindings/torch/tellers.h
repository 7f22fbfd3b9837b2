// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace cohort::torch_face {

/// Threads that complete futures, whose callbacks are the program's and may do anything, such as call and
/// wait: not where results are made.
///
/// Callbacks run one after another, in the order of the results, and those of calls that a callback makes on
/// another thread, so that it can wait for them. One that waits for what was made elsewhere holds the others
/// up for kPatience; then a further thread goes on with them, out of order. There are at most kMostThreads: a
/// program whose callbacks all wait for each other's threads beyond that waits until the calls are waited
/// for.
///
/// Never ended, as what it waits with; but silent once the interpreter ends, whose lock nobody gets then.
/// Threads: any.
class Tellers {
 public:
  static constexpr std::size_t kMostThreads = 64;
  static constexpr std::size_t kMostDepth = 16;  ///< of callbacks whose order is kept
  static constexpr std::chrono::milliseconds kPatience{5};

  static Tellers& one() { return *current(); }
  /// In a child of fork, which has no thread of its parent's; what those were to tell is the parent's.
  static void begin_anew();
  /// Within how many callbacks this thread is.
  [[nodiscard]] static std::size_t depth() noexcept;

  /// `depth`: where the call was made.
  void tell(std::size_t depth, std::function<void()> what);
  /// Waits, a few seconds at most, until all is told; later ones are not.
  void fall_silent();

 private:
  using Clock = std::chrono::steady_clock;
  struct Untold {
    std::function<void()> what;
    Clock::time_point since;
  };
  struct Lane {
    std::deque<Untold> waiting;
    std::condition_variable wanted;
    std::size_t threads = 0;
    std::size_t busy = 0;
  };

  static Tellers*& current();
  void add_thread(std::size_t depth);
  void run(std::size_t depth);
  void wait_for_next(Lane& lane, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool is_quiet() const;

  std::mutex mutex_;
  std::array<Lane, kMostDepth> lanes_;
  std::condition_variable told_;
  std::size_t threads_ = 0;
  bool is_silent_ = false;
};

}  // namespace cohort::torch_face
