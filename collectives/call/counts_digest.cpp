// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/counts_digest.h>

#include <cohort/engine/splitmix64.h>

namespace cohort {
namespace {

constexpr unsigned kSumBits = 24;
constexpr std::uint32_t kSumMask = (std::uint32_t{1} << kSumBits) - 1;

/// Changes that follow a rule, as two more here and two less there, cancel out in no sum of these.
std::uint32_t hash_of(std::uint64_t value) noexcept {
  return static_cast<std::uint32_t>(splitmix64(value + 1) >> (64 - kSumBits));
}

/// Odd, so that no change is lost by it.
std::uint32_t weight_of(std::size_t place) noexcept { return hash_of(place + 0x5851f42d4c957f2dU) | 1; }

}  // namespace

void CountsDigest::add(std::size_t count) noexcept {
  const std::uint32_t hash = hash_of(count);
  sum_ += hash;
  weighted_sum_ += hash * weight_of(places_++);
}

CountsDigest CountsDigest::of_bits(std::uint64_t bits) noexcept {
  CountsDigest digest;
  digest.weighted_sum_ = static_cast<std::uint32_t>(bits) & kSumMask;
  digest.sum_ = static_cast<std::uint32_t>(bits >> kSumBits) & kSumMask;
  return digest;
}

std::uint64_t CountsDigest::bits() const noexcept {
  return std::uint64_t{sum_ & kSumMask} << kSumBits | (weighted_sum_ & kSumMask);
}

std::optional<std::size_t> CountsDigest::differing_from(const CountsDigest& other,
                                                        std::size_t places) const noexcept {
  const std::uint32_t change = sum_ - other.sum_;
  const std::uint32_t weighted_change = (weighted_sum_ - other.weighted_sum_) & kSumMask;
  std::optional<std::size_t> found;
  for (std::size_t place = 0; place < places; ++place) {
    if (((change * weight_of(place)) & kSumMask) != weighted_change) continue;
    if (found) return std::nullopt;
    found = place;
  }
  return found;
}

}  // namespace cohort
