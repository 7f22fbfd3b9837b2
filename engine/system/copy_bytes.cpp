// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/copy_bytes.h>

#include <cohort/engine/clock.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <memory>
#include <new>

namespace cohort::detail {
namespace {

#if defined(__x86_64__)
constexpr bool kHasString = !sanitizers::kAddress && !sanitizers::kThread;
#else
constexpr bool kHasString = false;
#endif

constexpr std::size_t kPage = 4096;
constexpr std::size_t kTriedBytes = 4 * kPage;

struct Offsets {
  std::size_t from;
  std::size_t to;
};
/// Within a page: alike, where malloc() begins large blocks, a little behind the source, not aligned.
constexpr Offsets kTried[] = {{0, 0}, {16, 0}, {0, 16}, {16, 32}, {16, 64}, {0, 15}, {1, 0}};

struct alignas(kPage) Page {
  std::array<std::byte, kPage> bytes{};
};

/// Of some tries the shortest: whatever disturbs one makes it longer.
template <class Copy>
Duration shortest_time(Copy copy) {
  MonotonicClock clock;
  Duration shortest = Duration::max();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const TimePoint start = clock.now();
    for (int i = 0; i < 4; ++i) copy();
    shortest = std::min(shortest, clock.now() - start);
  }
  return shortest;
}

bool try_string() {
  const std::size_t pages = kTriedBytes / kPage + 1;
  const std::unique_ptr<Page[]> source(new (std::nothrow) Page[pages]);
  const std::unique_ptr<Page[]> target(new (std::nothrow) Page[pages]);
  if (!source || !target) return false;
  return std::ranges::all_of(kTried, [&](const Offsets& offsets) {
    const std::byte* const from = source[0].bytes.data() + offsets.from;
    std::byte* const to = target[0].bytes.data() + offsets.to;
    const Duration by_vectors = shortest_time([&] { copy_by_vectors(to, from, kTriedBytes); });
    const Duration by_string = shortest_time([&] { copy_by_string(to, from, kTriedBytes); });
    return in_microseconds(by_string) <= tuning::copying::kMostTimesOfVectors * in_microseconds(by_vectors);
  });
}

}  // namespace

void copy_by_string(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__x86_64__)
  if constexpr (kHasString) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
#endif
  if (bytes != 0) std::memcpy(to, from, bytes);
}

bool is_string_fast() noexcept {
  static const bool is_fast = kHasString && try_string();
  return is_fast;
}

}  // namespace cohort::detail
