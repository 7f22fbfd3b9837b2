// SPDX-License-Identifier: Apache-2.0
// On a kernel of larger pages, as some of aarch64: as this program's own sysconf() says.
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/net/host/segment.h>
#include <cohort/tests/support/outcome.h>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

constexpr long kPage = 65536;

extern "C" long sysconf(int name) noexcept {
  static const auto real = reinterpret_cast<long (*)(int)>(::dlsym(RTLD_NEXT, "sysconf"));
  return name == _SC_PAGESIZE ? kPage : real(name);
}

namespace cohort::large_pages_test {
namespace {

using cohort::test::error_from;
using cohort::test::kind_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

TEST(LargePages, are_what_the_heap_gives_out) {
  ASSERT_EQ(memory_map::page_bytes(), std::size_t{kPage});
  SharedMemory memory = SharedMemory::create(4 * kMiB);
  SharedHeap heap(memory, 0, 4 * kMiB, false);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{kPage + 1}})
    EXPECT_EQ(static_cast<std::size_t>(heap.allocate(bytes) - memory.data()) % kPage, 0U) << bytes;
  EXPECT_EQ(heap.reserve(5000) % kPage, 0U);
}

TEST(LargePages, are_what_may_be_registered) {
  SharedMemory memory = SharedMemory::create(4 * kMiB);
  SharedHeap heap(memory, 0, 4 * kMiB, false);
  const std::unique_ptr<std::byte, Free> own(static_cast<std::byte*>(std::aligned_alloc(kPage, 2 * kPage)));
  const auto error = error_from([&] { heap.adopt(own.get() + 4096, kPage); });
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_THAT(error->what(), ::testing::HasSubstr("whole pages of 65536 bytes"));
  EXPECT_THAT(error->what(), ::testing::HasSubstr("std::aligned_alloc(65536, n * 65536)"));
  heap.adopt(own.get(), 2 * kPage);
  heap.restore(own.get());
}

TEST(LargePages, hold_the_parts_of_a_segment) {
  const host::Layout layout = host::Layout::of_group(3, 100'000);
  EXPECT_EQ(layout.buffer_bytes() % kPage, 0U);
  EXPECT_EQ(layout.size_bytes() % kPage, 0U);
}

}  // namespace
}  // namespace cohort::large_pages_test
