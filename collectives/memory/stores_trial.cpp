// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/stores_trial.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace cohort {
namespace {

Stores other_than(Stores stores) noexcept {
  return stores == Stores::cached ? Stores::streaming : Stores::cached;
}

}  // namespace

StoresTrial::Kind& StoresTrial::find(std::size_t kind, std::size_t footprint_bytes) noexcept {
  const int size_class = static_cast<int>(std::bit_width(footprint_bytes));
  Kind& found = kinds_[(kind * 8 + static_cast<std::size_t>(size_class)) % kKinds];
  if (found.kind == kind && found.size_class == size_class) return found;
  const bool is_beyond = footprint_bytes > cache_bytes_ / 4 * 5;
  found = {.kind = kind, .size_class = size_class, .stores = is_beyond ? Stores::streaming : Stores::cached};
  return found;
}

Stores StoresTrial::begin(std::size_t kind, std::size_t footprint_bytes, TimePoint now) noexcept {
  running_ = &find(kind, footprint_bytes);
  bytes_ = footprint_bytes;
  began_ = now;
  const bool tries_other = running_->calls < 2 * kTries && running_->calls % 2 == 1;
  return tries_other ? other_than(running_->stores) : running_->stores;
}

void StoresTrial::end(TimePoint now) noexcept {
  if (running_ == nullptr) return;
  Kind& kind = *std::exchange(running_, nullptr);
  const unsigned call = kind.calls++;
  if (kind.calls == kPeriod) kind.calls = 0;
  if (call >= 2 * kTries) return;
  double& least = call % 2 == 1 ? kind.other_ns_per_byte : kind.own_ns_per_byte;
  const double taken = static_cast<double>((now - began_).count()) / static_cast<double>(bytes_);
  least = call < 2 ? taken : std::min(least, taken);
  const bool is_last = call + 1 == 2 * kTries;
  if (is_last && kind.other_ns_per_byte * kGain < kind.own_ns_per_byte) kind.stores = other_than(kind.stores);
}

}  // namespace cohort
