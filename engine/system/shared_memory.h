// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>

#include <cstddef>
#include <memory>
#include <string>

namespace cohort {

/// A sealed memfd, mapped: memory that other processes map too once they were given its descriptor.
///
/// No name anywhere, so nothing can be left behind or guessed; sealed against shrinking and growing, so that
/// no peer can make an access fault. Its size is address space: pages are committed when first touched.
class SharedMemory {
 public:
  /// Segments begin at a multiple of this, so that offsets and addresses align alike.
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

  SharedMemory() = default;
  /// Creates; throws ResourceLimit with the size asked for.
  static SharedMemory create(std::size_t bytes);
  /// Maps another process's segment, and closes the descriptor: what changes the segment is its owner's.
  /// Throws ProtocolError if it is not sealed or not of that size.
  static SharedMemory map(Descriptor descriptor, std::size_t bytes);
  /// The same for a segment that this very process may have mapped: its mapping is shared then. One address
  /// for all threads that meet in it costs fewer page faults, and ThreadSanitizer, which knows addresses and
  /// not pages, sees the order that counters in the segment make. Lives as long as its last owner.
  static SharedMemory share(Descriptor descriptor, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// The owner's; -1 for others.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  [[nodiscard]] bool contains(const void* address, std::size_t bytes) const noexcept;

  // For the owner:
  /// Puts [offset, offset + bytes) of the segment, whole pages, at an address that something else is mapped
  /// at. Throws SystemError, and nothing is changed.
  void map_over(void* address, std::size_t offset, std::size_t bytes);

  /// Makes sure that pages are there, so that a shortage is an error here and not a signal later. Throws
  /// ResourceLimit.
  void commit(std::size_t offset, std::size_t bytes);
  /// Backs the whole huge pages of committed memory by such, where the kernel has them: fewer address
  /// translations, and peers fault once per 2 MiB (64 MiB: 2 ms instead of 27). Takes about 4 ms per huge
  /// page and changes no contents. False if it could not; nothing is lost then.
  bool use_huge_pages(std::size_t offset, std::size_t bytes) noexcept;
  /// When the kernel backs shared memory by huge pages, in its own words: "never", "advise" (where a process
  /// asks for it), "within_size", "always"; "unknown" where it does not say.
  [[nodiscard]] static std::string huge_page_policy();
  /// Gives pages back; their contents become zero.
  void discard(std::size_t offset, std::size_t bytes) noexcept;

 private:
  class Mapping;

  static SharedMemory take(Descriptor descriptor, std::size_t bytes);
  void use(std::shared_ptr<const Mapping> mapping) noexcept;
  void swap(SharedMemory& other) noexcept;

  Descriptor descriptor_;
  std::shared_ptr<const Mapping> mapping_;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace cohort
