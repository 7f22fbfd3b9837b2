// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/failure.h>
#include <cohort/engine/immovable.h>

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace cohort::mpi {

/// The objects that a persistent request was prepared with: its handles stand for them though the program may
/// have freed them since, and handles are given again.
class NamedObjects {
 public:
  /// In this thread, as long as it lives. Those that are looked up meanwhile are kept, too.
  class Use : Immovable {
   public:
    explicit Use(NamedObjects& objects) noexcept : before_(std::exchange(current, &objects)) {}
    ~Use() { current = before_; }

   private:
    NamedObjects* const before_;
  };
  static inline thread_local NamedObjects* current = nullptr;

  /// `handles`: whose.
  [[nodiscard]] std::shared_ptr<void>& at(const void* handles, int handle) {
    return objects_[{handles, handle}];
  }

 private:
  std::map<std::pair<const void*, int>, std::shared_ptr<void>> objects_;
};

/// Objects that a program knows by an int: its upper byte says what they are, the rest which one.
///
/// Threads: any. A number is given again once its object is removed.
template <class T>
class Handles {
 public:
  /// `what`: for errors, as "communicator".
  Handles(int kind, const char* what, abi::ErrorClass error) : kind_(kind), what_(what), error_(error) {}

  [[nodiscard]] int add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      if (objects_.size() > kMost) fail(error_, fmt::format("{} objects '{}' are open", kMost, what_));
      free_.push_back(static_cast<int>(objects_.size()));
      objects_.emplace_back();
    }
    const int number = free_.back();
    free_.pop_back();
    objects_[static_cast<std::size_t>(number)] = std::move(object);
    return kind_ | (number + kFirst);
  }
  /// Throws Failure for a handle that is none.
  [[nodiscard]] std::shared_ptr<T> at(int handle) {
    NamedObjects* const named = NamedObjects::current;
    if (named == nullptr) {
      const std::lock_guard lock(mutex_);
      return find(handle);
    }
    if (named->at(this, handle) == nullptr) {
      const std::lock_guard lock(mutex_);
      named->at(this, handle) = std::const_pointer_cast<std::remove_const_t<T>>(find(handle));
    }
    return std::static_pointer_cast<T>(named->at(this, handle));
  }
  std::shared_ptr<T> remove(int handle) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<T> object = std::move(find(handle));
    free_.push_back(number_of(handle));
    return object;
  }

  /// All that are there.
  [[nodiscard]] std::vector<std::shared_ptr<T>> remove_all() {
    const std::lock_guard lock(mutex_);
    free_.clear();
    std::vector<std::shared_ptr<T>> all = std::exchange(objects_, {});
    std::erase(all, nullptr);
    return all;
  }

 private:
  /// Below are handles that the interface itself gives to some.
  static constexpr int kFirst = 16;
  static constexpr std::size_t kMost = std::size_t{1} << 24;

  [[nodiscard]] static int number_of(int handle) noexcept { return (handle & 0x3ffffff) - kFirst; }
  [[nodiscard]] std::shared_ptr<T>& find(int handle) {
    const int number = number_of(handle);
    const bool is_kind = (handle & ~0x3ffffff) == kind_;
    if (is_kind && number >= 0 && static_cast<std::size_t>(number) < objects_.size()) {
      std::shared_ptr<T>& object = objects_[static_cast<std::size_t>(number)];
      if (object != nullptr) return object;
    }
    fail(error_, fmt::format("{:#010x} is no {}; was it freed?", static_cast<unsigned>(handle), what_));
  }

  const int kind_;
  const char* const what_;
  const abi::ErrorClass error_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<T>> objects_;
  std::vector<int> free_;
};

}  // namespace cohort::mpi
