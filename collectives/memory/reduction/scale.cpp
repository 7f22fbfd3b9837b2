// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/reduction/scale.h>

#include <cohort/collectives/memory/reduction/reduce.h>
#include <cohort/collectives/schedules/operators/reference.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

/// The factor, as often as fits beside what passes through the first-level cache.
constexpr std::size_t kFactorBytes = 4096;

}  // namespace

void scale(DataType type, double factor, std::byte* to, const std::byte* from, std::size_t count) noexcept {
  const std::size_t element = size_bytes(type);
  alignas(64) std::array<std::byte, kFactorBytes> factors;
  const std::size_t most = kFactorBytes / element;
  for (std::size_t i = 0; i < std::min(most, count); ++i)
    reference::store(type, factors.data() + i * element, factor);
  for (std::size_t at = 0; at < count; at += most) {
    const std::array inputs{from + at * element, static_cast<const std::byte*>(factors.data())};
    std::byte* const output = to + at * element;
    reduce({type, ReduceOp::prod, std::min(most, count - at), inputs, std::span(&output, 1)});
  }
}

}  // namespace cohort
