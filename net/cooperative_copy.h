// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/tuning.h>
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace cohort {

/// The parts of a message, in order: for its receiver alone, or for whoever of both ends is free next. Then
/// both have one of these, on a word that both write, and which outlives them. Threads: one end's.
class CooperativeCopy {
 public:
  /// Of one part: copied between two looks at whether others on the engine want a turn.
  static constexpr std::size_t kMostBytes = tuning::messages::kMostPart;

  /// The upper half: which message. The lower one: how many of its parts were taken.
  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free);

  struct Part {
    std::size_t at;
    std::size_t bytes;
  };

  explicit CooperativeCopy(std::size_t bytes) noexcept : bytes_(bytes) {}
  /// Of message `number`, as long as the word says that it is its.
  CooperativeCopy(std::size_t bytes, Word& word, std::uint32_t number) noexcept
      : bytes_(bytes), word_(&word), number_(number) {}

  /// From here on both ends may take parts of that message.
  static void begin(Word& word, std::uint32_t number) noexcept {
    word.store(std::uint64_t{number} << 32, std::memory_order_release);
  }

  /// Neither end takes any more of it.
  static void end(Word& word, std::uint32_t number) noexcept {
    word.store(std::uint64_t{number} << 32 | ~std::uint32_t{0}, std::memory_order_release);
  }

  /// Takes the next one; none if all were taken.
  [[nodiscard]] std::optional<Part> next() noexcept {
    const std::uint32_t index = word_ == nullptr ? taken_ : take_from_word();
    if (index >= count()) return std::nullopt;
    ++taken_;
    const std::size_t at = index * part_bytes();
    return Part{at, std::min(part_bytes(), bytes_ - at)};
  }
  /// By this end.
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_; }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>((bytes_ + part_bytes() - 1) / part_bytes());
  }

 private:
  /// Small enough that who comes late finds some left.
  [[nodiscard]] std::size_t part_bytes() const noexcept {
    constexpr std::size_t kLeast = tuning::messages::kLeastPart;
    return std::clamp((bytes_ / tuning::messages::kParts + kLeast - 1) / kLeast * kLeast, kLeast, kMostBytes);
  }
  /// count() or more: there is none.
  [[nodiscard]] std::uint32_t take_from_word() noexcept {
    std::uint64_t seen = word_->load(std::memory_order_relaxed);
    for (;;) {
      const auto index = static_cast<std::uint32_t>(seen);
      if (seen >> 32 != number_ || index >= count()) return count();
      if (word_->compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) return index;
    }
  }

  std::size_t bytes_;
  Word* word_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint32_t taken_ = 0;
};

}  // namespace cohort
