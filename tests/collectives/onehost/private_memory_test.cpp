// SPDX-License-Identifier: Apache-2.0
// What the kernel copies between private buffers, where one of them is not what its owner says.
#include <cohort/cohort.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/engine/system/peer_memory.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cohort::private_memory_test {
namespace {

/// Pages of this process, readable and writable as they are asked to be.
class Pages {
 public:
  Pages(std::size_t count, int protection)
      : bytes_(count * memory_map::page_bytes()),
        data_(::mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* at(std::size_t page) const {
    return static_cast<std::byte*>(data_) + page * memory_map::page_bytes();
  }
  [[nodiscard]] std::span<float> floats() const {
    return {static_cast<float*>(data_), bytes_ / sizeof(float)};
  }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST(OwnMemory, is_what_may_be_read_or_written_from_end_to_end) {
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  const Pages all(3, kBoth);
  const std::size_t most = 3 * memory_map::page_bytes() - 1;
  EXPECT_TRUE(is_own_memory(all.at(0) + 1, most, true));
  ASSERT_EQ(::mprotect(all.at(1), 1, PROT_READ), 0);
  EXPECT_TRUE(is_own_memory(all.at(0) + 1, most, false));
  EXPECT_FALSE(is_own_memory(all.at(0) + 1, most, true));
  EXPECT_TRUE(is_own_memory(all.at(2), memory_map::page_bytes(), true));
  ASSERT_EQ(::mprotect(all.at(2), 1, PROT_NONE), 0);
  EXPECT_FALSE(is_own_memory(all.at(0) + 1, most, false));
  EXPECT_TRUE(is_own_memory(all.at(0), 2 * memory_map::page_bytes(), false));
  EXPECT_TRUE(is_own_memory(all.at(2), 0, true));
}

constexpr std::size_t kPages = 16;
const std::size_t kFloats = kPages * memory_map::page_bytes() / sizeof(float);

/// A gather to rank 0, where what rank 1 gives, or where it goes, has this protection: whose fault that is,
/// all say.
void expect_fault_of(Rank culprit, int protection, const char* what) {
  const auto body = [=](Communicator& comm) -> Task<> {
    const Pages in(kPages, PROT_READ | PROT_WRITE);
    const Pages out(2 * kPages, PROT_READ | PROT_WRITE);
    const Pages& wrong = culprit == 0 ? out : in;
    const std::size_t first = culprit == 0 ? kPages : 0;
    if (comm.rank() == culprit) {
      EXPECT_EQ(::mprotect(wrong.at(first), kPages * memory_map::page_bytes(), protection), 0);
    }
    EXPECT_EQ(comm.reach().pull.from_bytes(PullUse::rooted), 1U);
    std::optional<Error> error;
    const std::span<float> taken = out.floats().first(comm.rank() == 0 ? 2 * kFloats : 0);
    Collective call = comm.gather(std::span<const float>(in.floats()), taken, 0).with_algorithm("direct");
    try {
      co_await std::move(call);
    } catch (const Error& caught) {
      error = caught;
    }
    EXPECT_TRUE(error) << "rank " << comm.rank();
    if (!error) co_return;
    EXPECT_EQ(error->culprit(), culprit) << error->what();
    EXPECT_THAT(error->what(), ::testing::HasSubstr(what)) << "rank " << comm.rank();
  };
  CommunicatorOptions options;
  options.is_isolated = true;
  options.pull_from_bytes = 1;
  test::run_ranks(2, body, options);
}

TEST(PrivateMemory, of_a_root_that_may_not_be_written_to_is_the_roots_fault) {
  expect_fault_of(0, PROT_READ, "may not be written to (EFAULT)");
}

TEST(PrivateMemory, of_a_giver_that_may_not_be_read_is_the_givers_fault) {
  expect_fault_of(1, PROT_NONE, "may not be read (EFAULT)");
}

}  // namespace
}  // namespace cohort::private_memory_test
