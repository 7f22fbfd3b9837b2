// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace cohort::test {

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kPageFloats = kPageBytes / sizeof(float);
inline constexpr float kUntouched = -1;

/// What is stored to while time passes by it. Kept to the end.
class Results {
 public:
  /// How often a page has been stored to, by its first element.
  using Stores = std::function<std::size_t(float)>;

  Results() : Results([](float value) { return value == kUntouched ? std::size_t{0} : std::size_t{1}; }) {}
  explicit Results(Stores stores) : stores_(std::move(stores)) {}

  [[nodiscard]] std::span<float> make(std::size_t count, float value = kUntouched) {
    std::vector<float>& memory = own_.emplace_back(count, value);
    watch(memory);
    return memory;
  }
  void watch(std::span<const float> memory) { watched_.push_back(memory); }

  [[nodiscard]] std::size_t stored_pages() const {
    std::size_t pages = 0;
    for (const std::span<const float> memory : watched_)
      for (std::size_t at = 0; at < memory.size(); at += kPageFloats) pages += stores_(memory[at]);
    return pages;
  }

 private:
  const Stores stores_;
  std::deque<std::vector<float>> own_;
  std::vector<std::span<const float>> watched_;
};

/// Time that passes as pages of the results are stored to, 1 us for each, beside that of another clock.
class StoringClock final : public Clock {
 public:
  StoringClock(std::unique_ptr<Clock> other, const Results& results)
      : other_(std::move(other)), results_(results) {}
  [[nodiscard]] TimePoint now() noexcept override {
    return other_->now() + std::chrono::microseconds(results_.stored_pages());
  }

 private:
  std::unique_ptr<Clock> other_;
  const Results& results_;
};

}  // namespace cohort::test
