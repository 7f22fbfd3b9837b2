// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace cohort::test {

/// For programs of one source file, whose operator new is the one below. As long as it lives, this thread
/// gets no memory for requests of so many bytes or more, but for the first few of them.
class NoMemory {
 public:
  explicit NoMemory(std::size_t from_bytes = 0, std::size_t but_first = 0) noexcept
      : from_bytes_(from_bytes), left_(but_first) {
    current_ = this;
  }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory() { current_ = nullptr; }

  [[nodiscard]] bool has_refused() const noexcept { return has_refused_; }
  /// For operator new.
  [[nodiscard]] static bool refuses(std::size_t bytes) noexcept {
    if (current_ == nullptr || bytes < current_->from_bytes_) return false;
    if (current_->left_ == 0) return current_->has_refused_ = true;
    --current_->left_;
    return false;
  }

 private:
  static inline thread_local NoMemory* current_ = nullptr;
  const std::size_t from_bytes_;
  std::size_t left_;
  bool has_refused_ = false;
};

}  // namespace cohort::test

void* operator new(std::size_t bytes) {
  void* const memory = cohort::test::NoMemory::refuses(bytes) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
