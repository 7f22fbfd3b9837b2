// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/root_info.h>

#include <cohort/collectives/communicator.h>
#include <cohort/collectives/run.h>
#include <cohort/net/join/join_options.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

namespace cohort::root_info_test {
namespace {

using ::cohort::test::error_from;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

TEST(RootInfo, comes_back_as_it_was) {
  const Secret secret = Secret::random();
  for (const char* address :
       {"10.0.0.1:29400", "[fd00:1111:2222:3333:4444:5555:6666:7777%interface-name0]:65535"}) {
    const RootInfo info = encode_root_info(address, secret);
    const RootInfoParts parts = decode_root_info(info);
    EXPECT_EQ(parts.address, address);
    EXPECT_TRUE(std::ranges::equal(parts.secret.bytes(), secret.bytes()));
  }
}

TEST(RootInfo, that_was_cut_or_changed_is_refused) {
  const RootInfo info = encode_root_info("10.0.0.1:29400", Secret::random());
  for (std::size_t i = 0; i < info.size(); ++i) {
    RootInfo changed = info;
    changed[i] ^= std::byte{1};
    EXPECT_EQ(kind_of(error_from([&] { (void)decode_root_info(changed); })), "InvalidArgument") << i;
  }
  const auto cut = error_from([&] { (void)decode_root_info(std::span(info).first(127)); });
  ASSERT_EQ(kind_of(cut), "InvalidArgument");
  EXPECT_THAT(cut->what(), HasSubstr("there are 127; send all 128"));
}

TEST(RootInfo, is_another_one_each_time) {
  const RootInfoParts one = decode_root_info(root_info());
  const RootInfoParts other = decode_root_info(root_info());
  EXPECT_NE(one.address, other.address);
  EXPECT_FALSE(std::ranges::equal(one.secret.bytes(), other.secret.bytes()));
}

TEST(RootInfo, is_all_that_ranks_need_to_meet) {
  const RootInfo info = root_info();
  std::array<int, 3> status{-1, -1, -1};
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < status.size(); ++rank)
    ranks.emplace_back([&, rank] {
      const auto sum = [rank](Communicator& comm) -> Task<> {
        std::vector<int> values{static_cast<int>(rank) + 1};
        co_await comm.all_reduce(values, ReduceOp::sum);
        if (values[0] != 6) throw Error(ErrorKind::Internal, "a wrong sum");
      };
      status[rank] =
          run(sum, CommunicatorOptions::from_root_info(info, rank, static_cast<Rank>(status.size())));
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_THAT(status, ::testing::Each(0));
}

}  // namespace
}  // namespace cohort::root_info_test
