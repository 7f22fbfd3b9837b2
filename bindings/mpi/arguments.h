// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/abi.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace cohort::mpi {

/// A number of a call: of elements, or of bytes. Programs give an int, or by the functions that end in _c an
/// MPI_Count.
using Number = std::int64_t;

/// An array of them, of either width: counts, or places.
class Numbers {
 public:
  Numbers(const int* of) noexcept : narrow_(of) {}      // NOLINT(google-explicit-constructor)
  Numbers(const MPI_Count* of) noexcept : wide_(of) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_null() const noexcept { return narrow_ == nullptr && wide_ == nullptr; }
  [[nodiscard]] Number operator[](std::size_t index) const noexcept {
    return wide_ != nullptr ? wide_[index] : narrow_[index];
  }

 private:
  const int* narrow_ = nullptr;
  const MPI_Count* wide_ = nullptr;
};

/// Where a number goes, or is and goes, of either width. What an int cannot hold is MPI_UNDEFINED there.
class NumberOut {
 public:
  NumberOut(int* to) noexcept : narrow_(to) {}      // NOLINT(google-explicit-constructor)
  NumberOut(MPI_Count* to) noexcept : wide_(to) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] Number value() const noexcept { return wide_ != nullptr ? *wide_ : *narrow_; }
  void set(Number value) const noexcept {
    if (wide_ != nullptr) {
      *wide_ = value;
    } else {
      const int narrow = static_cast<int>(value);
      *narrow_ = narrow == value ? narrow : abi::kUndefined;
    }
  }

 private:
  int* narrow_ = nullptr;
  MPI_Count* wide_ = nullptr;
};

}  // namespace cohort::mpi
