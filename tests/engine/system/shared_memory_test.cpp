// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/shared_memory.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/support/forked_part.h>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace cohort::test::shared_memory_test {
namespace {

constexpr std::size_t kBytes = 8192;

Descriptor copy_of(const SharedMemory& memory) { return Descriptor(::dup(memory.descriptor())); }

TEST(SharedMemory, mapped_again_lies_elsewhere_and_holds_the_same) {
  const SharedMemory mine = SharedMemory::create(kBytes);
  const SharedMemory theirs = SharedMemory::map(copy_of(mine), kBytes);
  ASSERT_NE(theirs.data(), mine.data());
  mine.data()[5000] = std::byte{42};
  EXPECT_EQ(theirs.data()[5000], std::byte{42});
}

TEST(SharedMemory, reserved_together_lies_at_one_address_for_all_of_the_process) {
  SharedMemory mine = SharedMemory::reserve_together("one", kBytes);
  SharedMemory shared = SharedMemory::reserve_together("one", kBytes);
  const SharedMemory other = SharedMemory::reserve_together("other", kBytes);
  const SharedMemory larger = SharedMemory::reserve_together("one", 2 * kBytes);
  const SharedMemory apart = SharedMemory::reserve(kBytes);
  EXPECT_EQ(shared.data(), mine.data());
  for (const SharedMemory* memory : {&other, &larger, &apart}) EXPECT_NE(memory->data(), mine.data());
  mine.back_by_new();
  shared.back_by(copy_of(mine));
  mine.data()[1] = std::byte{7};
  EXPECT_EQ(shared.data()[1], std::byte{7});
}

TEST(SharedMemory, mapping_of_several_lives_as_long_as_its_last_owner) {
  std::optional<SharedMemory> mine = SharedMemory::reserve_together("one", kBytes);
  const SharedMemory shared = SharedMemory::reserve_together("one", kBytes);
  mine->back_by_new();
  const SharedMemory part = mine->part(4096, 4096);
  mine->data()[4097] = std::byte{7};
  mine.reset();
  EXPECT_EQ(shared.data()[4097], std::byte{7});
  EXPECT_EQ(part.data()[1], std::byte{7});
}

TEST(SharedMemory, forked_child_does_not_take_its_parents_mapping) {
  SharedMemory mine = SharedMemory::reserve_together("one", kBytes);
  mine.back_by_new();
  mine.data()[1] = std::byte{7};
  const pid_t child = ::fork();
  if (child == 0) {
    SharedMemory shared = SharedMemory::reserve_together("one", kBytes);
    shared.back_by(copy_of(mine));
    ::_exit(std::to_integer<int>(shared.data()[1]));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(SharedMemory, forked_child_reads_what_is_there_and_writes_for_itself) {
  SharedMemory mine = SharedMemory::create(kBytes);
  const SharedMemory part = mine.part(4096, 4096);
  const SharedMemory gone = [] {
    SharedMemory other = SharedMemory::create(kBytes);
    return other.part(0, 4096);
  }();
  part.data()[1] = std::byte{7};
  const pid_t child = ::fork();
  if (child == 0) {
    const int read = std::to_integer<int>(part.data()[1]);
    part.data()[1] = std::byte{9};
    gone.data()[0] = std::byte{9};
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(std::to_integer<int>(part.data()[1]));
    int status = 0;
    ::waitpid(grandchild, &status, 0);
    ::_exit(WIFEXITED(status) && WEXITSTATUS(status) == 9 ? read : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(part.data()[1], std::byte{7});
  EXPECT_EQ(gone.data()[0], std::byte{0});
}

TEST(SharedMemory, forked_child_has_nothing_of_what_is_another_processs) {
  const SharedMemory mine = SharedMemory::create(kBytes);
  const SharedMemory theirs = SharedMemory::map(copy_of(mine), kBytes);
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would exit with a status of its own
        const pid_t child = ::fork();
        if (child == 0) ::_exit(std::to_integer<int>(theirs.data()[0]));
        int status = 0;
        ::waitpid(child, &status, 0);
        ::_exit(WIFSIGNALED(status) ? 3 : 0);
      },
      testing::ExitedWithCode(3), "");
}

/// As a rank that lies would have it: what threads share must be one segment.
TEST(SharedMemory, backed_already_is_not_backed_by_another_segment) {
  SharedMemory mine = SharedMemory::reserve(kBytes);
  mine.back_by_new();
  mine.data()[1] = std::byte{7};
  const SharedMemory other = SharedMemory::create(kBytes);
  try {
    mine.back_by(copy_of(other));
    ADD_FAILURE() << "it took another one";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::ProtocolError);
  }
  EXPECT_EQ(mine.data()[1], std::byte{7});
}

TEST(SharedMemory, of_another_size_or_unsealed_is_not_taken) {
  const SharedMemory larger = SharedMemory::create(2 * kBytes);
  const Descriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.number(), kBytes), 0);
  for (const int descriptor : {larger.descriptor(), unsealed.number()}) {
    SharedMemory mine = SharedMemory::reserve(kBytes);
    try {
      mine.back_by(Descriptor(::dup(descriptor)));
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::ProtocolError);
    }
    EXPECT_EQ(mine.descriptor(), -1);
  }
}

std::size_t resident_pages(const SharedMemory& memory) {
  struct stat status {};
  EXPECT_EQ(::fstat(memory.descriptor(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512 / 4096;
}

TEST(SharedMemory, part_begins_within_and_changes_nothing_before_or_behind_it) {
  SharedMemory whole = SharedMemory::create(8 * kBytes);
  SharedMemory part = whole.part(2 * kBytes, 4 * kBytes);
  EXPECT_EQ(part.data(), whole.data() + 2 * kBytes);
  EXPECT_TRUE(part.contains(part.data(), part.size_bytes()));
  EXPECT_FALSE(part.contains(whole.data(), 1));
  EXPECT_FALSE(part.contains(part.data(), part.size_bytes() + 1));

  part.commit(kBytes, kBytes);
  EXPECT_EQ(resident_pages(whole), kBytes / 4096);
  std::memset(whole.data(), 7, whole.size_bytes());
  part.discard(kBytes, kBytes);
  EXPECT_EQ(resident_pages(whole), 7 * kBytes / 4096);
  EXPECT_EQ(part.data()[kBytes - 1], std::byte{7});
  EXPECT_EQ(part.data()[kBytes], std::byte{0});
  EXPECT_EQ(part.data()[2 * kBytes], std::byte{7});

  void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::byte* const buffer = static_cast<std::byte*>(pages);
  std::optional<ChildView> view;
  part.map_over(buffer, 3 * kBytes, kBytes, view);
  buffer[1] = std::byte{9};
  EXPECT_EQ(whole.data()[5 * kBytes + 1], std::byte{9});

  const pid_t child = ::fork();
  if (child == 0) {
    const int read = std::to_integer<int>(buffer[1]);
    buffer[1] = std::byte{3};
    ::_exit(read);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 9);
  EXPECT_EQ(buffer[1], std::byte{9});
  view.reset();
  ::munmap(pages, kBytes);
}

TEST(SharedMemory, zeros_that_are_committed_are_there) {
  SharedMemory whole = SharedMemory::create(8 * kBytes);
  SharedMemory part = whole.part(2 * kBytes, 4 * kBytes);
  part.commit_zeros(kBytes, 2 * kBytes + 100);
  EXPECT_EQ(resident_pages(whole), 2 * kBytes / 4096 + 1);
  EXPECT_TRUE(std::all_of(whole.data(), whole.data() + whole.size_bytes(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(SharedMemory, address_space_that_is_limited_is_told_of_with_what_needs_it) {
  if (sanitizers::kThread) GTEST_SKIP() << "ThreadSanitizer itself needs more of it";
  auto limited = [] {
    const ::rlimit limit{std::size_t{4} << 30, std::size_t{4} << 30};
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    try {
      (void)SharedMemory::create(std::size_t{8} << 30);
      ADD_FAILURE() << "there was room for it";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::ResourceLimit);
      for (const char* word : {"8589934592 bytes", "lower COHORT_HEAPSIZE", "ulimit -v"})
        EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos) << error.what();
    }
  };
#ifndef __SANITIZE_ADDRESS__  // its own memory takes more
  test::ForkedPart part("a process with little address space", limited);
  part.join();
#else
  (void)limited;
#endif
}

/// ftruncate would raise SIGXFSZ, which ends the process without a word.
TEST(SharedMemory, beyond_the_limit_on_the_size_of_files_is_told_with_what_to_raise) {
  auto limited = [] {
    const ::rlimit limit{kBytes - 1, kBytes - 1};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    try {
      (void)SharedMemory::create(kBytes);
      ADD_FAILURE() << "there was room for it";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::ResourceLimit);
      for (const char* word : {"8192 bytes", "8191 bytes", "ulimit -f", "COHORT_HEAPSIZE"})
        EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos) << error.what();
    }
  };
  test::ForkedPart part("a process that may make small files only", limited);
  part.join();
}

}  // namespace
}  // namespace cohort::test::shared_memory_test
