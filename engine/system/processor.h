// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace cohort::processor
