// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/failure.h>

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace cohort::failure_test {
namespace {

TEST(Failure, is_told_as_the_error_that_it_is) {
  const Error error = Error(ErrorKind::LinkFault, "broken").with_culprit(3);
  const std::exception_ptr failure = std::make_exception_ptr(error);
  EXPECT_EQ(as_error(failure).kind(), ErrorKind::LinkFault);
  EXPECT_EQ(as_error(failure).culprit(), 3U);
  EXPECT_EQ(error_in(failure)->message(), "broken");
}

TEST(Failure, of_memory_is_a_limit_of_the_host_and_no_bug) {
  const std::exception_ptr failure = std::make_exception_ptr(std::bad_alloc());
  EXPECT_EQ(as_error(failure).kind(), ErrorKind::ResourceLimit);
  EXPECT_FALSE(error_in(failure));
}

TEST(Failure, of_another_kind_is_a_bug_with_its_text) {
  const Error told = as_error(std::make_exception_ptr(std::logic_error("out of range")));
  EXPECT_EQ(told.kind(), ErrorKind::Internal);
  EXPECT_EQ(told.message(), "out of range");
  EXPECT_EQ(as_error(std::make_exception_ptr(7)).kind(), ErrorKind::Internal);
}

}  // namespace
}  // namespace cohort::failure_test
