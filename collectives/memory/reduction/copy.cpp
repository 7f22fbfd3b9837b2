// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/reduction/copy.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <cohort/collectives/memory/reduction/copy.cpp>
#include <hwy/foreach_target.h>
// Once per instruction set from here on.
#include <cohort/collectives/memory/reduction/kernels.h>
#include <cohort/engine/system/copy_bytes.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace cohort::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Copies what is whole groups of vectors, returns how many bytes that were. `to` is aligned to
/// kStreamAlignment.
std::size_t stream_groups(std::uint8_t* HWY_RESTRICT to, const std::uint8_t* HWY_RESTRICT from,
                          std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; bytes - i >= 4 * lanes; i += 4 * lanes) {
    const auto first = hn::LoadU(d, from + i);
    const auto second = hn::LoadU(d, from + i + lanes);
    const auto third = hn::LoadU(d, from + i + 2 * lanes);
    const auto fourth = hn::LoadU(d, from + i + 3 * lanes);
    hn::Stream(first, d, to + i);
    hn::Stream(second, d, to + i + lanes);
    hn::Stream(third, d, to + i + 2 * lanes);
    hn::Stream(fourth, d, to + i + 3 * lanes);
  }
  return i;
}

}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {

namespace detail {

HWY_EXPORT(stream_groups);

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (to == from || bytes == 0) return;
  const std::size_t head = HWY_MIN(bytes_to_alignment(to), bytes);
  std::memcpy(to, from, head);
  auto* const aligned = reinterpret_cast<std::uint8_t*>(to + head);
  const auto* const source = reinterpret_cast<const std::uint8_t*>(from + head);
  const std::size_t streamed = HWY_DYNAMIC_DISPATCH(stream_groups)(aligned, source, bytes - head);
  std::memcpy(to + head + streamed, from + head + streamed, bytes - head - streamed);
}

void streaming_fence() noexcept { hwy::FlushStream(); }

}  // namespace detail

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores) noexcept {
  if (to == from || bytes == 0) return;
  if (stores == Stores::cached) {
    copy_bytes(to, from, bytes);
    return;
  }
  detail::stream_copy(to, from, bytes);
  detail::streaming_fence();
}

}  // namespace cohort
#endif
