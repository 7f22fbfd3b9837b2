// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tools/launch/forwarded.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace cohort::forwarded_test {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

/// With a variable of each kind.
class Forwarded : public ::testing::Test {
 public:
  Forwarded() {
    for (const auto& [name, value] : kVariables) ::setenv(name, value, 1);
  }
  ~Forwarded() override {
    for (const auto& [name, value] : kVariables) ::unsetenv(name);
  }

 private:
  static inline const std::map<const char*, const char*> kVariables = {
      {"COHORT_TIMEOUT", "9"},         {"COHORT_RANK", "3"}, {"COHORT_HOST_ID", "leader"},
      {"COHORT_MACHINE_ID", "leader"}, {"OF_THE_TEST", "1"},
  };
};

TEST_F(Forwarded, variables_are_those_of_the_job_and_none_of_this_machine) {
  const std::vector<std::pair<std::string, std::string>> variables = forwarded_variables({});
  EXPECT_THAT(variables, Contains(Pair("COHORT_TIMEOUT", "9")));
  for (const char* const name : {"COHORT_RANK", "COHORT_HOST_ID", "COHORT_MACHINE_ID", "OF_THE_TEST"})
    EXPECT_THAT(variables, Not(Contains(Key(name))));
}

TEST_F(Forwarded, variables_that_are_named_go_in_any_case) {
  const std::vector<std::string> named = {"COHORT_MACHINE_ID", "OF_THE_TEST=2"};
  EXPECT_THAT(forwarded_variables(named, false),
              ::testing::ElementsAre(Pair("COHORT_MACHINE_ID", "leader"), Pair("OF_THE_TEST", "2")));
  const std::vector<std::string> unset = {"NOT_SET_AT_ALL"};
  EXPECT_THAT([&] { (void)forwarded_variables(unset, false); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("-x NOT_SET_AT_ALL")));
}

}  // namespace
}  // namespace cohort::forwarded_test
