// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/ancestry.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace cohort::ancestry_test {
namespace {

constexpr const char* kVariable = "COHORT_TEST_OF_A_RANK";

TEST(Ancestry, is_the_parent_where_that_has_not_the_variable_and_says_when_it_started) {
  if (std::getenv(kVariable) != nullptr) {
    std::printf("answer %s\n", ancestor_without(kVariable).c_str());
    return;
  }
  EXPECT_THAT(ancestor_without(kVariable), ::testing::MatchesRegex(fmt::format("{}@[0-9]+", ::getppid())));
}

/// Scripts around a rank have what its launcher gave it.
TEST(Ancestry, passes_over_those_that_have_it) {
  if (std::getenv(kVariable) != nullptr) return;
  const std::string again = fmt::format(
      "{}=1 sh -c 'echo inner $$; /proc/{}/exe --gtest_filter=*is_the_parent*; true'", kVariable, ::getpid());
  std::FILE* const pipe = ::popen(again.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 256> some{};
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) output += some.data();
  EXPECT_EQ(::pclose(pipe), 0);
  const auto number_behind = [&](const std::string& word) {
    const std::size_t at = output.find(word);
    return at == std::string::npos ? 0 : std::stoi(output.substr(at + word.size()));
  };
  const int inner = number_behind("inner ");
  const int found = number_behind("answer ");
  EXPECT_NE(inner, 0) << output;
  EXPECT_NE(found, 0) << output;
  EXPECT_NE(found, inner) << "it has the variable";
}

}  // namespace
}  // namespace cohort::ancestry_test
