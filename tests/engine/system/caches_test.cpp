// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/caches.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

namespace cohort::caches::caches_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A core's folder as sysfs has it.
class CoreFolder : public testing::Test {
 protected:
  CoreFolder() { std::filesystem::remove_all(folder_); }
  ~CoreFolder() override { std::filesystem::remove_all(folder_); }

  void write(unsigned index, const std::string& level, const std::string& type, const std::string& size) {
    const std::filesystem::path place = folder_ / ("index" + std::to_string(index));
    std::filesystem::create_directories(place);
    std::ofstream(place / "level") << level << '\n';
    std::ofstream(place / "type") << type << '\n';
    std::ofstream(place / "size") << size << '\n';
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("caches" + std::to_string(::getpid()));
};

TEST_F(CoreFolder, lists_the_caches_that_hold_data) {
  write(0, "1", "Data", "48K");
  write(1, "1", "Instruction", "32K");
  write(2, "2", "Unified", "1024K");
  write(3, "3", "Unified", "32M");
  EXPECT_THAT(read_caches(folder_),
              ElementsAre(Cache{1, 48U << 10}, Cache{2, 1U << 20}, Cache{3, 32U << 20}));
}

TEST_F(CoreFolder, that_is_not_there_has_none) { EXPECT_THAT(read_caches(folder_), IsEmpty()); }

TEST_F(CoreFolder, leaves_out_what_it_cannot_read) {
  write(0, "1", "Data", "many");
  write(1, "2", "Unified", "");
  write(2, "3", "Unified", "99999999999999999999999999K");
  write(3, "3", "Unified", "8192K");
  const std::vector<Cache> found = read_caches(folder_);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back(), (Cache{3, 8U << 20}));
  EXPECT_THAT(found, testing::Not(testing::Contains(testing::Field(&Cache::bytes, 0U))));
}

/// A core whose own cache has so many bytes, in a machine that may be told anything.
std::function<double(std::size_t)> core_with(std::size_t bytes) {
  return [bytes](std::size_t written) { return written <= bytes ? 5.0 : 16.0; };
}

TEST(Caches, of_a_core_are_as_large_as_is_found_there) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  EXPECT_EQ(found_again(kMiB, core_with(kMiB)), kMiB);
  EXPECT_EQ(found_again(4 * kMiB, core_with(kMiB)), kMiB);
  EXPECT_EQ(found_again(512 * kMiB, core_with(2 * kMiB)), 2 * kMiB);
  EXPECT_EQ(found_again(kMiB, core_with(4 * kMiB)), kMiB) << "no more than the system says";
  EXPECT_EQ(found_again(64 << 10, core_with(kMiB)), 64U << 10);
}

TEST(Caches, are_not_larger_than_the_system_says_nor_than_is_usual) {
  EXPECT_LE(core_bytes(), told_core_bytes());
  EXPECT_LE(last_level_bytes(), std::max(core_bytes(), std::size_t{32} << 20));
}

TEST(Caches, of_this_machine_grow_by_level) {
  EXPECT_GE(core_bytes(), 64U << 10);
  EXPECT_GE(last_level_bytes(), core_bytes());
}

}  // namespace
}  // namespace cohort::caches::caches_test
