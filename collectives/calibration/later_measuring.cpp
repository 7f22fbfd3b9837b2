// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/calibration/later_measuring.h>

#include <algorithm>

namespace cohort {

std::uint64_t LaterMeasuring::begin(std::uint64_t sequence) noexcept {
  measured_at_ = sequence;
  return sequence + kFirstMessages;
}

LaterMeasuring::Round LaterMeasuring::next(std::uint64_t sequence, double passed_us) noexcept {
  const double wait_us = in_microseconds(wait_);
  if (passed_us >= wait_us) {
    const Duration budget = std::min(kMostTime, wait_ / kPart);
    wait_ = std::min(2 * wait_, kLast);
    messages_ = 0;
    return {++rounds_, budget};
  }
  const std::uint64_t since = std::max<std::uint64_t>(sequence - measured_at_, 1);
  const double growth = (wait_us - passed_us) / std::max(passed_us, 1.0);
  const auto grown =
      static_cast<std::uint64_t>(static_cast<double>(since) * std::min(growth, static_cast<double>(kGrowth)));
  messages_ = std::max(grown, kFirstMessages / 4);
  return {rounds_, Duration::zero()};
}

std::uint64_t LaterMeasuring::end_after(std::uint64_t sequence) noexcept {
  return messages_ == 0 ? begin(sequence) : sequence + messages_;
}

}  // namespace cohort
