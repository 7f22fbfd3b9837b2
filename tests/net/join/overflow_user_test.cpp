// SPDX-License-Identifier: Apache-2.0
// Ranks in a user namespace that shows them, and all other users, by one number.
#include <cohort/engine/system/figure_cache.h>
#include <cohort/engine/system/host.h>
#include <cohort/engine/system/secret_file.h>
#include <cohort/tests/support/forked_part.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/user_namespace.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace cohort::overflow_user_test {
namespace {

using ::cohort::test::ForkedPart;
using ::cohort::test::join_on;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

constexpr unsigned kOverflowUser = 65534;

/// In a process of its own that is that user alone, if the kernel allows it.
void as_only_user(unsigned user, const std::function<void()>& part) {
  ForkedPart process("the only user", [&] {
    if (::cohort::test::become_only_user(user)) part();
  });
  process.join();
}

bool may_make_namespaces() {
  const int child = ::fork();
  if (child == 0) ::_exit(::cohort::test::become_only_user(kOverflowUser) ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

class OverflowUserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!may_make_namespaces()) GTEST_SKIP() << "no user namespaces here";
  }
};

TEST_F(OverflowUserTest, no_secret_is_made_or_taken_and_the_error_says_what_to_do) {
  as_only_user(kOverflowUser, [] {
    EXPECT_FALSE(host::tells_users_apart());
    Engine engine;
    for (const auto& joined : join_on(engine, ::cohort::test::world_of(2, "unix:cohort-overflow-user"))) {
      EXPECT_EQ(kind_of(joined.error), "AuthFailed");
      if (!joined.error) continue;
      EXPECT_THAT(joined.error->what(), HasSubstr("COHORT_SECRET_FILE"));
      EXPECT_THAT(joined.error->what(), HasSubstr("65534"));
    }
  });
}

TEST_F(OverflowUserTest, ranks_that_are_given_a_secret_join) {
  as_only_user(kOverflowUser, [] {
    Engine engine;
    auto world = ::cohort::test::world_of(2, ::cohort::test::fresh_unix_address());
    ::cohort::test::give_secret(world);
    for (const auto& joined : join_on(engine, world)) EXPECT_EQ(kind_of(joined.error), "no error");
  });
}

TEST_F(OverflowUserTest, other_users_of_such_a_namespace_join_as_ever) {
  as_only_user(1000, [] {
    EXPECT_TRUE(host::tells_users_apart());
    Engine engine;
    const auto world = ::cohort::test::world_of(2, ::cohort::test::fresh_unix_address());
    for (const auto& joined : join_on(engine, world)) EXPECT_EQ(kind_of(joined.error), "no error");
  });
}

TEST_F(OverflowUserTest, its_secret_file_is_read_and_figures_that_anybody_may_have_left_are_not) {
  as_only_user(kOverflowUser, [] {
    const std::string folder = (std::filesystem::temp_directory_path() / "cohort-overflow-XXXXXX").string();
    std::string name = folder;
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    const std::string secret = name + "/secret";
    std::ofstream(secret) << "0123456789abcdef";
    ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
    EXPECT_EQ(read_secret_file(secret).size(), 16U);
    const FigureCache cache(name + "/figures");
    cache.keep_from(std::chrono::system_clock::now(), "host", std::array{1.0});
    EXPECT_TRUE(cache.find("host").empty());
    std::filesystem::remove_all(name);
  });
}

}  // namespace
}  // namespace cohort::overflow_user_test
