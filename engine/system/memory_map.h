// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

/// What lies where in this process's address space.
namespace cohort::memory_map {

/// Of this kernel, as it says: 4, 16 or 64 KiB.
[[nodiscard]] std::size_t page_bytes() noexcept;

/// Why that range is not ordinary memory, which nobody shares and every thread may write; empty if it is.
/// Ordinary is anonymous, private, readable and writable, all of it.
[[nodiscard]] std::string why_not_ordinary(const void* address, std::size_t bytes);

/// Makes a range of whole pages private again, with the contents it has. Nobody may write to it meanwhile.
/// False, and nothing is changed, if there is no memory.
[[nodiscard]] bool make_private(void* address, std::size_t bytes) noexcept;

/// The C library's heap lies on huge pages from here on, up to so many more bytes, where the kernel has them
/// for the asking; they are taken when they are touched. For programs that walk through much small memory.
void grow_heap_on_huge_pages(std::size_t bytes) noexcept;

}  // namespace cohort::memory_map
