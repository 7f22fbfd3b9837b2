// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/shared_memory.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/support/forked_part.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

namespace cohort::test {
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

TEST(SharedMemory, shared_in_one_process_lies_at_one_address) {
  const SharedMemory mine = SharedMemory::create(kBytes);
  const SharedMemory other = SharedMemory::create(kBytes);
  const SharedMemory shared = SharedMemory::share(copy_of(mine), kBytes);
  EXPECT_EQ(shared.data(), mine.data());
  EXPECT_NE(shared.data(), other.data());
}

TEST(SharedMemory, shared_mapping_lives_as_long_as_its_last_owner) {
  std::optional<SharedMemory> mine = SharedMemory::create(kBytes);
  const SharedMemory shared = SharedMemory::share(copy_of(*mine), kBytes);
  mine->data()[1] = std::byte{7};
  mine.reset();
  EXPECT_EQ(shared.data()[1], std::byte{7});
}

TEST(SharedMemory, forked_child_does_not_take_its_parents_mapping) {
  const SharedMemory mine = SharedMemory::create(kBytes);
  mine.data()[1] = std::byte{7};
  const pid_t child = ::fork();
  if (child == 0) {
    const SharedMemory shared = SharedMemory::share(copy_of(mine), kBytes);
    ::_exit(std::to_integer<int>(shared.data()[1]));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
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
  testing::ForkedPart part("a process with little address space", limited);
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
  testing::ForkedPart part("a process that may make small files only", limited);
  part.join();
}

}  // namespace
}  // namespace cohort::test
