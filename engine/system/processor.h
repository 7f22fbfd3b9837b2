// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/core_set.h>

#include <sched.h>
#include <unistd.h>

#include <optional>
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

/// Gives the core to whoever waits for it; costs a system call when nobody does.
inline void yield() noexcept { ::sched_yield(); }

/// Cores that this process may run on.
[[nodiscard]] inline unsigned available_cores() noexcept {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
  return std::thread::hardware_concurrency();
}

/// Where the calling thread runs now; negative where the kernel does not say.
[[nodiscard]] inline int current_core() noexcept { return ::sched_getcpu(); }

/// A thread by the kernel's number; 0: the calling one.
using Thread = pid_t;

/// Which cores a thread may run on; nothing where the kernel does not say.
[[nodiscard]] inline std::optional<CoreSet> cores_of_thread(Thread thread = 0) noexcept {
  cpu_set_t set;
  if (::sched_getaffinity(thread, sizeof set, &set) != 0) return std::nullopt;
  CoreSet cores;
  for (std::size_t core = 0; core < kMostCores && core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.set(core);
  return cores;
}

/// The same; those numbered lowest, where the kernel does not say.
[[nodiscard]] inline CoreSet usable_cores() noexcept {
  if (const std::optional<CoreSet> cores = cores_of_thread()) return *cores;
  CoreSet lowest;
  for (std::size_t core = 0; core < kMostCores && core < std::thread::hardware_concurrency(); ++core)
    lowest.set(core);
  return lowest;
}

/// Keeps a thread, and those that it starts, on these cores, if it may.
inline void run_on(const CoreSet& cores, Thread thread = 0) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::size_t core = 0; core < kMostCores && core < CPU_SETSIZE; ++core)
    if (cores.test(core)) CPU_SET(core, &set);
  static_cast<void>(::sched_setaffinity(thread, sizeof set, &set));
}

/// The calling thread on that core; nothing where it is negative.
inline void stay_on(int core) noexcept {
  if (core >= 0 && static_cast<std::size_t>(core) < kMostCores)
    run_on(CoreSet().set(static_cast<std::size_t>(core)));
}

}  // namespace cohort::processor
