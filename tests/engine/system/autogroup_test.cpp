// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/autogroup.h>
#include <cohort/engine/system/file_text.h>
#include <cohort/tests/support/forked_part.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

namespace cohort::autogroup_test {
namespace {

TEST(Autogroup, is_of_a_session_where_the_kernel_has_them) {
  test::ForkedPart child("a child", [] {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const auto parent = static_cast<std::uint32_t>(::getppid());
    EXPECT_EQ(autogroup_of(self), autogroup_of(parent));
    ASSERT_NE(::setsid(), -1);
    const bool are_used =
        file_text("/proc/sys/kernel/sched_autogroup_enabled").value_or("0").starts_with('1');
    EXPECT_EQ(autogroup_of(self) != autogroup_of(parent), are_used);
    EXPECT_EQ(autogroup_of(self).empty(), !are_used);
  });
  child.join();
}

TEST(Autogroup, of_no_process_is_not_known) {
  EXPECT_EQ(autogroup_of(std::numeric_limits<std::uint32_t>::max()), "");
}

}  // namespace
}  // namespace cohort::autogroup_test
