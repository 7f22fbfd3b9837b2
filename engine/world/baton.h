// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace cohort::world {

/// Who has it goes on; one thread at a time waits for it.
///
/// A thread that waits sleeps at once: spinning, as std::binary_semaphore does at first, it would only take
/// the core from the thread that it waits for. Threads: any.
class Baton : Immovable {
 public:
  void give() {
    {
      const std::lock_guard lock(mutex_);
      is_given_ = true;
    }
    given_.notify_one();
  }
  void take() {
    std::unique_lock lock(mutex_);
    given_.wait(lock, [this] { return is_given_; });
    is_given_ = false;
  }
  /// False if it was not given for so long.
  [[nodiscard]] bool take_within(std::chrono::seconds longest) {
    std::unique_lock lock(mutex_);
    return given_.wait_for(lock, longest, [this] { return is_given_; }) && std::exchange(is_given_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  bool is_given_ = false;
};

}  // namespace cohort::world
