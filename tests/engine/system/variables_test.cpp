// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/variables.h>

#include <gmock/gmock.h>

#include <cstdlib>

namespace cohort::environment::variables_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Variables, a_slip_is_told_with_what_was_meant_and_all_else_is_somebody_elses) {
  EXPECT_THAT(misspelt_variables(), IsEmpty());
  ::setenv("COHORT_TRANSPORT", "shm", 1);
  ::setenv("COHORT_PROJECT", "ours", 1);
  ::setenv("OHORT_TIMEOUT", "3", 1);
  EXPECT_THAT(misspelt_variables(), IsEmpty());
  ::setenv("COHORT_TRANSPROT", "tcp", 1);
  EXPECT_THAT(misspelt_variables(),
              ElementsAre("COHORT_TRANSPROT is set and means nothing; COHORT_TRANSPORT may be meant"));
  ::unsetenv("COHORT_TRANSPROT");
  ::setenv("COHORT_TIMOUT", "3", 1);
  EXPECT_THAT(misspelt_variables(),
              ElementsAre("COHORT_TIMOUT is set and means nothing; COHORT_TIMEOUT may be meant"));
  for (const char* const name : {"COHORT_TRANSPORT", "COHORT_PROJECT", "OHORT_TIMEOUT", "COHORT_TIMOUT"})
    ::unsetenv(name);
}

}  // namespace
}  // namespace cohort::environment::variables_test
