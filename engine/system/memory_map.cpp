// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/memory_map.h>

#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace cohort::memory_map {
namespace {

/// A line of /proc/self/maps.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string permissions;
  std::uint64_t inode = 0;
};

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

bool parse(const std::string& line, Mapping& mapping) {
  std::istringstream fields(line);
  char dash = 0;
  std::string offset;
  std::string device;
  fields >> std::hex >> mapping.begin >> dash >> mapping.end >> mapping.permissions >> offset >> device >>
      std::dec >> mapping.inode;
  return !fields.fail();
}

}  // namespace

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::string why_not_ordinary(const void* address, std::size_t bytes) {
  std::uint64_t next = reinterpret_cast<std::uintptr_t>(address);
  const std::uint64_t end = next + bytes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; next < end && std::getline(maps, line);) {
    Mapping mapping;
    if (!parse(line, mapping) || mapping.end <= next) continue;
    if (mapping.begin > next) break;
    if (mapping.permissions != "rw-p" || mapping.inode != 0)
      return fmt::format("part of it is mapped {} with inode {}, not as private memory", mapping.permissions,
                         mapping.inode);
    next = mapping.end;
  }
  return next >= end ? "" : fmt::format("nothing is mapped at {:#x}", next);
}

bool make_private(void* address, std::size_t bytes) noexcept {
  void* const copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, address, bytes);
  if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED) return true;
  ::munmap(copy, bytes);
  return false;
}

void grow_heap_on_huge_pages(std::size_t bytes) noexcept {
  ::mallopt(M_MMAP_MAX, 0);         // large blocks come out of the heap, too
  ::mallopt(M_TRIM_THRESHOLD, -1);  // what is freed below stays
  void* const block = std::malloc(bytes);
  if (block == nullptr) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t aligned = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (aligned < begin + bytes)
    ::madvise(reinterpret_cast<void*>(aligned), begin + bytes - aligned, MADV_HUGEPAGE);
  std::free(block);
}

}  // namespace cohort::memory_map
