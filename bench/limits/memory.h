// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

#include <cohort/bench/limits/bench.h>
#include <cohort/bench/peers/data.h>

namespace cohort::limits {

inline constexpr std::size_t kLargestInCache = std::size_t{4} << 20;
inline constexpr std::array<std::size_t, 2> kBeyondCache = {std::size_t{16} << 20, std::size_t{64} << 20};

/// What two processes share of a memory in which each has a place.
class Exchange {
 public:
  Exchange() {
    void* address = mmap(nullptr, 2 * kLargestInCache, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "shared memory");
    data_ = static_cast<float*>(address);
  }
  std::span<float> of(int side, std::size_t bytes) const {
    return {data_ + static_cast<std::size_t>(side) * kLargestInCache / sizeof(float), bytes / sizeof(float)};
  }

 private:
  float* data_ = nullptr;
};

inline void add_to(float* __restrict to, const float* __restrict from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

/// Copies, or adds two, past the caches. `count` is a multiple of 4, everything page-aligned.
inline void stream(float* to, const float* a, const float* b, std::size_t count) {
#if defined(__x86_64__)
  for (std::size_t i = 0; i < count; i += 4) {
    const __m128 value = _mm_load_ps(a + i);
    _mm_stream_ps(to + i, b == nullptr ? value : _mm_add_ps(value, _mm_load_ps(b + i)));
  }
  _mm_sfence();
#else
  for (std::size_t i = 0; i < count; ++i) to[i] = b == nullptr ? a[i] : a[i] + b[i];
#endif
}

/// Each side takes what the other has just written: `pull` copies it, `pull_sum` adds it to its own. `copy`
/// and `sum` do the same with what the side has written itself.
inline void measure_pulls(Bench& bench, const Exchange& exchange) {
  const peers::Buffer own(kLargestInCache / sizeof(float));
  for (std::size_t bytes = 64; bytes <= kLargestInCache; bytes *= 4) {
    const std::span<float> mine = exchange.of(bench.side(), bytes);
    const std::span<const float> theirs = exchange.of(1 - bench.side(), bytes);
    float value = 0;
    const auto write = [&] { std::fill(mine.begin(), mine.end(), value += 1.0F); };
    bench.measure("pull", bytes, write, [&] { std::memcpy(own.data(), theirs.data(), bytes); });
    bench.measure("pull_sum", bytes, write, [&] { add_to(own.data(), theirs.data(), theirs.size()); });
    bench.measure("copy", bytes, write, [&] { std::memcpy(own.data(), mine.data(), bytes); });
    bench.measure("sum", bytes, write, [&] { add_to(own.data(), mine.data(), mine.size()); });
  }
}

/// Each side copies private memory that no cache holds, past the caches; `stream_sum` adds two such vectors.
inline void measure_streams(Bench& bench) {
  const std::size_t most = kBeyondCache.back() / sizeof(float);
  const peers::Buffer to(most);
  const peers::Buffer a(most);
  const peers::Buffer b(most);
  for (const std::size_t bytes : kBeyondCache) {
    const std::size_t count = bytes / sizeof(float);
    const auto nothing = [] {};
    bench.measure("stream", bytes, nothing, [&] { stream(to.data(), a.data(), nullptr, count); });
    bench.measure("stream_sum", bytes, nothing, [&] { stream(to.data(), a.data(), b.data(), count); });
  }
}

/// The smallest things: a line to the other core, the clock, a switch between two processes of one core.
inline void measure_signals(Bench& bench) {
  const double round_trip_ns = bench.wait_for_near();
  bench.report("one_way", 0, {round_trip_ns / 2e3, round_trip_ns / 2e3, round_trip_ns, round_trip_ns});
  constexpr int kReadings = 1000;
  Bench::Row timer;
  const std::int64_t start = now_ns();
  for (int i = 1; i < kReadings; ++i) (void)now_ns();
  timer.median_us = timer.min_us = static_cast<double>(now_ns() - start) / kReadings / 1e3;
  bench.report("timer", 0, timer);
}

/// Both sides on one core, in turn by sched_yield: one switch is half a round trip. The median of batches,
/// because others may want the core too.
inline void measure_switch(Bench& bench) {
  constexpr std::size_t kBatches = 101;
  constexpr std::uint64_t kRounds = 50;
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  const cpu_set_t core = bench.board().slots[0].cpus;
  sched_setaffinity(0, sizeof core, &core);
  auto& own = bench.side() == 0 ? bench.board().ping : bench.board().pong;
  const auto& other = bench.side() == 0 ? bench.board().pong : bench.board().ping;
  bench.meet();
  std::uint64_t round = other.load();
  bench.meet();
  std::array<double, kBatches> switches_us{};
  for (double& switch_us : switches_us) {
    const std::int64_t start = now_ns();
    for (const std::uint64_t last = round + kRounds; round < last;) {
      ++round;
      if (bench.side() == 0) own.fetch_add(1, std::memory_order_acq_rel);
      while (other.load(std::memory_order_acquire) != round) sched_yield();
      if (bench.side() == 1) own.fetch_add(1, std::memory_order_acq_rel);
    }
    switch_us = static_cast<double>(now_ns() - start) / kRounds / 2e3;
  }
  std::sort(switches_us.begin(), switches_us.end());
  bench.report("switch", 0, {switches_us[kBatches / 2], switches_us.front(), 0, 0});
  bench.meet();
  sched_setaffinity(0, sizeof before, &before);
}

}  // namespace cohort::limits
