// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/core_set.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// Where an engine runs, as far as anything of ours depends on it: the host's identity, cores and caches.
/// Virtual, beside Clock and Network, so that a simulated world is the same on every host that simulates it.
///
/// Threads: the engine's.
class Platform {
 public:
  virtual ~Platform() = default;

  /// As host::name(), host::fingerprint() and host::kernel_id().
  [[nodiscard]] virtual std::string host_name() = 0;
  [[nodiscard]] virtual std::string host_fingerprint() = 0;
  [[nodiscard]] virtual std::string kernel_id() = 0;

  /// Whether this host's devices are this engine's to use.
  [[nodiscard]] virtual bool has_devices() const noexcept { return true; }

  /// As processor::available_cores(), caches::core_bytes() and caches::last_level_bytes().
  [[nodiscard]] virtual unsigned available_cores() = 0;
  /// Which ones these are: as processor::usable_cores().
  [[nodiscard]] virtual CoreSet usable_cores() = 0;
  /// As affinity::one_of_each_core_first().
  [[nodiscard]] virtual std::vector<unsigned> one_of_each_core_first(const CoreSet& cores) = 0;
  /// Keeps the engine's thread, and those that it starts, on one of its cores until leave_core(), which is
  /// called once for each time that this was true; of several at a time the first one counts. usable_cores()
  /// are the same meanwhile. False: it is not bound, since it may not run there, or the kernel does not say.
  [[nodiscard]] virtual bool stay_on_core(std::size_t core) noexcept = 0;
  /// Meanwhile: if another thread drives the engine by now, that one stays there in place of the first.
  virtual void keep_core() noexcept = 0;
  /// Whichever thread calls it: the one that stays may run where it could before, unless somebody else has
  /// bound it since.
  virtual void leave_core() noexcept = 0;
  [[nodiscard]] virtual std::size_t core_cache_bytes() = 0;
  [[nodiscard]] virtual std::size_t last_level_cache_bytes() = 0;
  /// What the system says these are, which is a bound only.
  [[nodiscard]] virtual std::size_t told_core_cache_bytes() { return core_cache_bytes(); }
  [[nodiscard]] virtual std::size_t told_last_level_cache_bytes() { return last_level_cache_bytes(); }

  /// Lets this process have that many more descriptors, if it may (descriptor_limit::raise_to()). Gives how
  /// many more it may have now. Throws ResourceLimit if that is not `least`, with what the limit is and what
  /// it has to be.
  virtual std::size_t make_room_for_descriptors(std::size_t least, std::size_t wanted,
                                                std::string_view what_for) = 0;

  /// As processor::yield(): for a loop that waits for another rank without its driver.
  virtual void yield_core() noexcept = 0;
  /// The same for a moment, to a peer that is known to share the core: never by sleeping.
  virtual void hand_core_over() noexcept = 0;
  /// Where the caller runs now, as processor::current_core().
  [[nodiscard]] virtual int core() noexcept = 0;
};

/// The one that this process runs on.
[[nodiscard]] std::unique_ptr<Platform> make_real_platform();

}  // namespace cohort
