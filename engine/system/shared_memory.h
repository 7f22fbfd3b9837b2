// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/engine/system/child_view.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace cohort {

/// A sealed memfd, mapped, or a part of one: memory that other processes map too once they were given its
/// descriptor.
///
/// No name anywhere, so nothing can be left behind or guessed; sealed against shrinking and growing, so that
/// no peer can make an access fault. Its size is address space: pages are there when first touched. A child
/// of fork() has a private view of its own segments (ChildView), and none of others'. Threads: several may
/// back and use mappings that they share.
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
  /// Where a segment will lie that is backed later, and not touched before. Throws ResourceLimit.
  static SharedMemory reserve(std::size_t bytes);
  /// The same for all in this process that give this name, as long as one of them has it. One address for all
  /// threads that meet in it costs fewer page faults, and ThreadSanitizer, which knows addresses and not
  /// pages, sees the order that counters in the segment make.
  static SharedMemory reserve_together(const std::string& name, std::size_t bytes);
  /// By a new memfd, unless others of its name have backed it. Throws ResourceLimit.
  void back_by_new();
  /// By another process's, which everybody here may change. Throws ProtocolError if it is not sealed, not of
  /// that size, or another one than others of its name were given.
  void back_by(Descriptor descriptor);
  /// A part of it, which lives as long.
  [[nodiscard]] SharedMemory part(std::size_t offset, std::size_t bytes) const;

  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// -1 before it is backed, and where it is closed.
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] bool contains(const void* address, std::size_t bytes) const noexcept;

  // For the owner of the segment or the part, which offsets begin at:
  /// Puts [offset, offset + bytes) of the segment, whole pages, at an address that something else is mapped
  /// at, of which children of fork() have the view, which ends before that mapping does. Throws SystemError,
  /// and nothing is changed.
  void map_over(std::byte* address, std::size_t offset, std::size_t bytes, std::optional<ChildView>& view);

  /// Makes sure that pages are there, so that a shortage is an error here and not a signal later. Throws
  /// ResourceLimit.
  void commit(std::size_t offset, std::size_t bytes);
  /// The same of pages that are still zero, in one call and without faults; all who read them then fault once
  /// for many.
  void commit_zeros(std::size_t offset, std::size_t bytes);
  /// Backs the whole huge pages of committed memory by such, where the kernel has them: fewer address
  /// translations, and peers fault once per huge page. Takes far longer than to fault the pages in, and
  /// changes no contents. False if it could not; nothing is lost then.
  bool use_huge_pages(std::size_t offset, std::size_t bytes) noexcept;
  /// When the kernel backs shared memory by huge pages, in its own words: "never", "advise" (where a process
  /// asks for it), "within_size", "always"; "unknown" where it does not say.
  [[nodiscard]] static std::string huge_page_policy();
  /// Gives pages back; their contents become zero.
  void discard(std::size_t offset, std::size_t bytes) noexcept;

 private:
  class Mapping;

  SharedMemory(std::shared_ptr<Mapping> mapping, std::size_t begin, std::size_t bytes) noexcept;
  void swap(SharedMemory& other) noexcept;

  std::shared_ptr<Mapping> mapping_;
  std::size_t begin_ = 0;  ///< within the mapping
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace cohort
