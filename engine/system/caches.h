// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <vector>

/// What the caches of this machine hold.
///
/// What Linux says of each core (sysfs) a virtual machine is told by its host, which may say anything, or
/// describe a processor of which the machine has a part. So it is a bound only: a core's own cache is
/// measured, and of the last level, too large to measure, no more is believed than processors usually have.
namespace cohort::caches {

/// One cache that holds data.
struct Cache {
  unsigned level = 0;
  std::size_t bytes = 0;
  bool operator==(const Cache&) const = default;
};

/// Those of one core, as its folder `cache` in sysfs describes them; nothing where it does not, or damaged.
[[nodiscard]] std::vector<Cache> read_caches(const std::filesystem::path& of_core);

/// Bytes of the cache that a core has for itself, its second level, as the system says; 1 MiB where it does
/// not. Looked up once per process.
[[nodiscard]] std::size_t told_core_bytes();
/// The same of the largest cache that this core reaches, shared with others; 32 MiB.
[[nodiscard]] std::size_t told_last_level_bytes();

/// As much of the core's as was measured to be there, where that can be told. Measured once per process.
[[nodiscard]] std::size_t core_bytes();
/// Of the last level, at most 32 MiB: a first guess.
[[nodiscard]] std::size_t last_level_bytes();

/// The largest of `told_bytes`, a half of it, a quarter, ... of which a core finds what it has written about
/// as fast again as what surely is in its own cache. `line_ns`: what a line takes to read, of that many bytes
/// that it has just written.
[[nodiscard]] std::size_t found_again(std::size_t told_bytes,
                                      const std::function<double(std::size_t bytes)>& line_ns);

}  // namespace cohort::caches
