// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/list_digest.h>

#include <cohort/engine/splitmix64.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr unsigned kListSumBits = 18;
constexpr std::uint64_t kListSumMask = (std::uint64_t{1} << kListSumBits) - 1;
constexpr std::uint64_t kPrime = ListDigest::kModulus;

/// Places themselves as weights would not do: sizes of 1, -2, 1 in a row come to nothing.
std::uint64_t list_weight_of(std::size_t place) noexcept { return splitmix64(place + 1) % (kPrime - 1) + 1; }

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
    weighted = (weighted + count * list_weight_of(place)) % kPrime;
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
  digest.weighted_sum_ = static_cast<std::uint32_t>(bits & kListSumMask);
  digest.sum_ = static_cast<std::uint32_t>(bits >> kListSumBits & kListSumMask);
  digest.size_ = static_cast<std::uint32_t>(bits >> 2 * kListSumBits & kMostNamed);
  return digest;
}

std::uint64_t ListDigest::bits() const noexcept {
  return std::uint64_t{size_} << 2 * kListSumBits | std::uint64_t{sum_} << kListSumBits | weighted_sum_;
}

std::optional<std::size_t> ListDigest::differing_from(const ListDigest& other) const noexcept {
  if (size_ != other.size_ || size_ == kMostNamed) return std::nullopt;
  const std::uint64_t change = difference(sum_, other.sum_);
  const std::uint64_t weighted_change = difference(weighted_sum_, other.weighted_sum_);
  for (std::size_t place = 0; place < size_ && change != 0; ++place)
    if (change * list_weight_of(place) % kPrime == weighted_change) return place;
  return std::nullopt;
}

}  // namespace cohort
