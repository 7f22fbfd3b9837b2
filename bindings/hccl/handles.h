// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/hccl/error.h>
#include <cohort/engine/io/fork_guard.h>

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace cohort::bindings::hccl {

/// The objects that handles of one kind stand for, so that one that stands for none is told.
///
/// Threads: any. An object lives until it is taken out and nobody uses it any more.
template <class Object>
class Handles {
 public:
  /// Never ends: at the end of a process threads may still be here.
  static Handles& all() {
    static Handles* const handles = new Handles;
    return *handles;
  }

  void* add(std::shared_ptr<Object> object) {
    void* const handle = object.get();
    const Lock lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  /// Throws CodedError for what is none; `what` it should be, for people.
  [[nodiscard]] std::shared_ptr<Object> find(const void* handle, const char* function,
                                             const char* what) const {
    const Lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found != objects_.end()) return found->second;
    refuse_handle(fmt::format("{}: {} is no {}, or was one and is destroyed", function, handle, what));
  }
  /// The same, and it is none from now on.
  [[nodiscard]] std::shared_ptr<Object> take(const void* handle, const char* function, const char* what) {
    const Lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end())
      refuse_handle(fmt::format("{}: {} is no {}, or was one and is destroyed", function, handle, what));
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  [[nodiscard]] std::vector<std::shared_ptr<Object>> list() const {
    const Lock lock(mutex_);
    std::vector<std::shared_ptr<Object>> objects;
    for (const auto& [handle, object] : objects_) objects.push_back(object);
    return objects;
  }

 private:
  /// No child is forked meanwhile: it would never get the lock.
  struct Lock {
    explicit Lock(std::mutex& mutex) : guard(mutex) {}
    fork_guard::NoChild no_child{};
    std::lock_guard<std::mutex> guard;
  };

  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace cohort::bindings::hccl
