// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/library.h>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>

namespace cohort::verbs::library_test {
namespace {

TEST(InstalledLibrary, keeps_what_devices_reach_from_children) {
  std::string why_not;
  const Library* const library = installed_library(why_not);
  if (library == nullptr) GTEST_SKIP() << why_not;
  void* const file = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(file, nullptr);
  const auto status =
      std::bit_cast<decltype(&::ibv_is_fork_initialized)>(::dlsym(file, "ibv_is_fork_initialized"));
  ASSERT_NE(status, nullptr);
  EXPECT_NE(status(), IBV_FORK_DISABLED);
  ::dlclose(file);
}

}  // namespace
}  // namespace cohort::verbs::library_test
