// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/core_set.h>

#include <sched.h>
#include <unistd.h>

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

/// Where the calling thread runs now; negative where the kernel does not say.
[[nodiscard]] inline int current_core() noexcept { return ::sched_getcpu(); }

/// Keeps the calling thread, and those that it starts, on that core, if it may.
inline void stay_on(int core) noexcept {
  if (core < 0 || core >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  static_cast<void>(::sched_setaffinity(0, sizeof set, &set));
}

/// Which cores the calling thread may run on; those numbered lowest, where the kernel does not say.
[[nodiscard]] inline CoreSet usable_cores() noexcept {
  CoreSet cores;
  cpu_set_t set;
  const bool is_known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  const std::size_t count = is_known ? kMostCores : std::thread::hardware_concurrency();
  for (std::size_t core = 0; core < kMostCores && core < count; ++core)
    if (!is_known || CPU_ISSET(core, &set)) cores.set(core);
  return cores;
}

}  // namespace cohort::processor
