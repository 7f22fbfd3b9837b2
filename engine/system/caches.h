// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

/// What the caches of this machine hold.
///
/// Read from where Linux describes each core (sysfs). sysconf() adds up or repeats what the processor says of
/// itself: in a virtual machine on one part of a large processor it names the whole processor's.
namespace cohort::caches {

/// One cache that holds data.
struct Cache {
  unsigned level = 0;
  std::size_t bytes = 0;
  bool operator==(const Cache&) const = default;
};

/// Those of one core, as its folder `cache` in sysfs describes them; nothing where it does not, or damaged.
[[nodiscard]] std::vector<Cache> read_caches(const std::filesystem::path& of_core);

/// Bytes of the cache that a core has for itself, its second level; 1 MiB where the system does not say.
/// Looked up once per process.
[[nodiscard]] std::size_t core_bytes();

/// Bytes of the largest cache that this core reaches, shared with others; 32 MiB where the system does not
/// say. Looked up once per process.
[[nodiscard]] std::size_t last_level_bytes();

}  // namespace cohort::caches
