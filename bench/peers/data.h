// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>

namespace cohort::peers {

/// Float32 values, page aligned and faulted in once, so that no timed operation meets a page for the first
/// time.
class Buffer {
 public:
  explicit Buffer(std::size_t elements) : bytes_(std::max<std::size_t>(elements, 1) * sizeof(float)) {
    void* address =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "buffer");
    data_ = static_cast<float*>(address);
    std::fill_n(data_, bytes_ / sizeof(float), 1.0F);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { munmap(data_, bytes_); }

  float* data() const { return data_; }

 private:
  std::size_t bytes_;
  float* data_ = nullptr;
};

/// Test data repeats after a prime number of elements, so a chunk in a wrong place shows. Small whole
/// numbers: a sum over all ranks is exact in any order.
inline constexpr std::size_t kPeriod = 61;
using Pattern = std::array<float, kPeriod>;

inline Pattern input_of(int rank, std::uint64_t sequence) {
  Pattern pattern;
  const std::size_t phase = static_cast<std::size_t>(rank) * 13 + sequence % kPeriod * 5;
  for (std::size_t i = 0; i < kPeriod; ++i) pattern[i] = static_cast<float>((i * 7 + phase) % kPeriod);
  return pattern;
}

inline Pattern sum_of_inputs(int ranks, std::uint64_t sequence) {
  Pattern sum{};
  for (int rank = 0; rank < ranks; ++rank) {
    const Pattern pattern = input_of(rank, sequence);
    for (std::size_t i = 0; i < kPeriod; ++i) sum[i] += pattern[i];
  }
  return sum;
}

/// The pattern as seen from element `first` on.
inline Pattern shifted(const Pattern& pattern, std::size_t first) {
  Pattern result = pattern;
  std::rotate(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(first % kPeriod), result.end());
  return result;
}

inline void write_pattern(std::span<float> values, const Pattern& pattern) {
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kPeriod);
    std::memcpy(values.data(), pattern.data(), count * sizeof(float));
    values = values.subspan(count);
  }
}

inline bool holds_pattern(std::span<const float> values, const Pattern& pattern) {
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kPeriod);
    if (std::memcmp(values.data(), pattern.data(), count * sizeof(float)) != 0) return false;
    values = values.subspan(count);
  }
  return true;
}

}  // namespace cohort::peers
