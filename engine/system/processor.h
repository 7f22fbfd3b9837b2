// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <thread>

/// What a spinning loop asks of the processor and of the scheduler.
namespace cohort::processor {

/// A hint inside a spin loop: the sibling hardware thread may run.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Gives the core to whoever waits for it; about 0.5 us when nobody does.
inline void yield() noexcept { ::sched_yield(); }

/// Cores that this process may run on.
[[nodiscard]] inline unsigned available_cores() noexcept {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
  return std::thread::hardware_concurrency();
}

/// Bytes of the cache that a core has for itself; 1 MiB where the system does not say.
[[nodiscard]] inline std::size_t core_cache_bytes() noexcept {
  constexpr std::size_t kUsual = std::size_t{1} << 20;
  const long found = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return found > 0 ? static_cast<std::size_t>(found) : kUsual;
}

/// Bytes of the largest cache; 32 MiB where the system does not say.
[[nodiscard]] inline std::size_t last_level_cache_bytes() noexcept {
  constexpr std::size_t kUsual = std::size_t{32} << 20;
  const long found = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return found > 0 ? static_cast<std::size_t>(found) : kUsual;
}

}  // namespace cohort::processor
