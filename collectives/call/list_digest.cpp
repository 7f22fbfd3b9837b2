// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/list_digest.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr unsigned kSumBits = 18;
constexpr std::uint64_t kSumMask = (std::uint64_t{1} << kSumBits) - 1;
constexpr std::uint64_t kPrime = ListDigest::kModulus;

/// Like a random number, so that sizes which follow a rule meet no rule of the weights: with the places
/// themselves as weights 1, -2, 1 in a row would come to nothing. splitmix64 (Steele et al. 2014).
std::uint64_t weight_of(std::size_t place) noexcept {
  std::uint64_t mixed = (place + 1) * 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
  return (mixed ^ mixed >> 31) % (kPrime - 1) + 1;
}

std::uint64_t difference(std::uint32_t left, std::uint32_t right) noexcept {
  return (kPrime + left % kPrime - right % kPrime) % kPrime;
}

}  // namespace

ListDigest::ListDigest(std::span<const std::size_t> counts) noexcept
    : size_(static_cast<std::uint32_t>(std::min(counts.size(), kMostNamed))) {
  std::uint64_t sum = counts.size();  // of those that are too many to be told
  std::uint64_t weighted = 0;
  for (std::size_t place = 0; place < counts.size(); ++place) {
    const std::uint64_t count = counts[place] % kPrime;
    sum += count;
    weighted = (weighted + count * weight_of(place)) % kPrime;
  }
  sum_ = static_cast<std::uint32_t>(sum % kPrime);
  weighted_sum_ = static_cast<std::uint32_t>(weighted);
}

ListDigest ListDigest::of_size(std::size_t size) noexcept {
  ListDigest digest;
  digest.size_ = static_cast<std::uint32_t>(std::min(size, kMostNamed));
  return digest;
}

ListDigest ListDigest::of_bits(std::uint64_t bits) noexcept {
  ListDigest digest;
  digest.weighted_sum_ = static_cast<std::uint32_t>(bits & kSumMask);
  digest.sum_ = static_cast<std::uint32_t>(bits >> kSumBits & kSumMask);
  digest.size_ = static_cast<std::uint32_t>(bits >> 2 * kSumBits & kMostNamed);
  return digest;
}

std::uint64_t ListDigest::bits() const noexcept {
  return std::uint64_t{size_} << 2 * kSumBits | std::uint64_t{sum_} << kSumBits | weighted_sum_;
}

std::optional<std::size_t> ListDigest::differing_from(const ListDigest& other) const noexcept {
  if (size_ != other.size_ || size_ == kMostNamed) return std::nullopt;
  const std::uint64_t change = difference(sum_, other.sum_);
  const std::uint64_t weighted_change = difference(weighted_sum_, other.weighted_sum_);
  for (std::size_t place = 0; place < size_ && change != 0; ++place)
    if (change * weight_of(place) % kPrime == weighted_change) return place;
  return std::nullopt;
}

}  // namespace cohort
