// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace cohort {

class SharedHeap;

namespace detail {

/// Which may have ended: with it the memory that was allocated there has, and nothing is to be done.
using SharedHeapOrNone = std::weak_ptr<SharedHeap>;

[[nodiscard]] std::byte* allocate_shared(SharedHeap& heap, std::size_t count, std::size_t element_bytes);
void release_shared(const SharedHeapOrNone& heap, std::byte* memory) noexcept;
void adopt_shared(SharedHeap& heap, std::span<std::byte> memory);
void restore_private(const SharedHeapOrNone& heap, std::byte* memory) noexcept;

}  // namespace detail

/// A buffer that peers on this host map: collectives on it copy nothing twice. Page-aligned, zero at first
/// use, then recycled with whatever it holds. Elements of any trivially copyable type, for what takes them.
/// Lifetime: its memory is gone when the communicator that was joined has ended.
template <class T>
requires std::is_trivially_copyable_v<T>
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(const std::shared_ptr<SharedHeap>& heap, std::size_t count)
      : heap_(heap),
        data_(reinterpret_cast<T*>(detail::allocate_shared(*heap, count, sizeof(T)))),
        count_(count) {}
  SharedBuffer(SharedBuffer&& other) noexcept
      : heap_(std::move(other.heap_)),
        data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    std::swap(heap_, other.heap_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~SharedBuffer() {
    if (data_ != nullptr) detail::release_shared(heap_, reinterpret_cast<std::byte*>(data_));
  }

  [[nodiscard]] std::span<T> span() const noexcept { return {data_, count_}; }
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] T* begin() const noexcept { return data_; }
  [[nodiscard]] T* end() const noexcept { return data_ + count_; }
  [[nodiscard]] T& operator[](std::size_t index) const noexcept { return data_[index]; }

 private:
  detail::SharedHeapOrNone heap_;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// Keeps memory of the application's own registered: peers on this host map it, so that collectives on it
/// copy nothing twice. Its end makes the memory private again, where it stands, if its communicator has not
/// ended: then it stays memory that others have mapped. Lifetime: ends before the memory is freed; not while
/// a collective uses it.
class Registration {
 public:
  Registration() = default;
  Registration(const std::shared_ptr<SharedHeap>& heap, std::span<std::byte> memory)
      : heap_(heap), data_(memory.data()) {
    detail::adopt_shared(*heap, memory);
  }
  Registration(Registration&& other) noexcept
      : heap_(std::move(other.heap_)), data_(std::exchange(other.data_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(heap_, other.heap_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Registration() {
    if (data_ != nullptr) detail::restore_private(heap_, data_);
  }

 private:
  detail::SharedHeapOrNone heap_;
  std::byte* data_ = nullptr;
};

}  // namespace cohort
