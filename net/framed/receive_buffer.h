// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace cohort::framed {

/// Where received bytes stand until they are used: a queue of bytes in one block of memory.
class ReceiveBuffer {
 public:
  /// Of the block, and of what align() moves to its start.
  static constexpr std::size_t kAlignment = 64;

  /// Of so many bytes, a multiple of kAlignment.
  explicit ReceiveBuffer(std::size_t bytes) : bytes_(bytes), memory_(allocate(bytes)) {}

  /// Where room() begins when nothing stands here.
  [[nodiscard]] std::span<std::byte> block() noexcept { return {memory_.get(), bytes_}; }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] const std::byte* data() const noexcept { return memory_.get() + begin_; }

  /// Room behind what is there, which is moved to the start of the block: meant for few bytes.
  [[nodiscard]] std::span<std::byte> room(std::size_t most_bytes) noexcept {
    move_to_start();
    return {memory_.get() + end_, std::min(most_bytes, bytes_ - end_)};
  }
  /// So many bytes were written to room().
  void append(std::size_t bytes) noexcept { end_ += bytes; }
  void drop(std::size_t bytes) noexcept { begin_ += bytes; }
  void align() noexcept {
    if (begin_ % kAlignment != 0) move_to_start();
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  static std::byte* allocate(std::size_t bytes) {
    void* const memory = std::aligned_alloc(kAlignment, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  void move_to_start() noexcept {
    if (begin_ == 0) return;
    std::memmove(memory_.get(), data(), size());
    end_ -= std::exchange(begin_, 0);
  }

  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace cohort::framed
