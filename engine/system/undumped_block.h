// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace cohort {

/// 32 bytes of memory that core dumps leave out (madvise(2), MADV_DONTDUMP), for keys. Zeros when it is
/// taken, and overwritten when it is given back.
///
/// Moving it moves no bytes, so that none stay behind. Threads: any. Lifetime: also of static objects. Costs
/// a page for each 128 that live at a time.
class UndumpedBlock {
 public:
  static constexpr std::size_t kBytes = 32;

  /// None.
  UndumpedBlock() noexcept = default;
  UndumpedBlock(UndumpedBlock&& other) noexcept : bytes_(std::exchange(other.bytes_, nullptr)) {}
  UndumpedBlock& operator=(UndumpedBlock&& other) noexcept;
  ~UndumpedBlock() { release(); }

  /// Throws ResourceLimit where there is no memory.
  [[nodiscard]] static UndumpedBlock take();

  [[nodiscard]] bool is_taken() const noexcept { return bytes_ != nullptr; }
  /// Only of one that was taken.
  [[nodiscard]] std::span<std::byte, kBytes> bytes() noexcept {
    return std::span<std::byte, kBytes>(bytes_, kBytes);
  }
  [[nodiscard]] std::span<const std::byte, kBytes> bytes() const noexcept {
    return std::span<const std::byte, kBytes>(bytes_, kBytes);
  }

 private:
  void release() noexcept;

  std::byte* bytes_ = nullptr;
};

}  // namespace cohort
