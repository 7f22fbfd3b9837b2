// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/pmi/pmix_abi.h>

#include <gtest/gtest.h>

#if __has_include(<pmix.h>)
#define COHORT_HAS_PMIX 1
#include <pmix.h>
#else
#define COHORT_HAS_PMIX 0
#endif

namespace cohort::pmix_abi_test {
namespace {

TEST(PmixAbi, is_that_of_its_headers) {
#if COHORT_HAS_PMIX
  static_assert(sizeof(pmix::Process) == sizeof(pmix_proc_t));
  static_assert(offsetof(pmix::Process, rank) == offsetof(pmix_proc_t, rank));
  static_assert(sizeof(pmix::Value) == sizeof(pmix_value_t));
  static_assert(offsetof(pmix::Value, data) == offsetof(pmix_value_t, data));
  static_assert(sizeof(pmix::Info) == sizeof(pmix_info_t));
  static_assert(offsetof(pmix::Info, flags) == offsetof(pmix_info_t, flags));
  static_assert(offsetof(pmix::Info, value) == offsetof(pmix_info_t, value));
  EXPECT_EQ(pmix::kRankWildcard, PMIX_RANK_WILDCARD);
  EXPECT_EQ(pmix::kScopeGlobal, PMIX_GLOBAL);
  EXPECT_EQ(pmix::kBool, PMIX_BOOL);
  EXPECT_EQ(pmix::kString, PMIX_STRING);
  EXPECT_EQ(pmix::kUint32, PMIX_UINT32);
  EXPECT_STREQ(pmix::kJobSize, PMIX_JOB_SIZE);
  EXPECT_STREQ(pmix::kCollectData, PMIX_COLLECT_DATA);
#else
  GTEST_SKIP() << "the headers of libpmix-dev are not there";
#endif
}

}  // namespace
}  // namespace cohort::pmix_abi_test
