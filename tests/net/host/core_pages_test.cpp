// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/core_pages.h>

#include <cohort/engine/error.h>
#include <cohort/tests/net/host/two_engines.h>

#include <gtest/gtest.h>

#include <vector>

namespace cohort::test::core_pages_test {
namespace {

class CorePages : public TwoEngines {
 protected:
  bool hands_core_over(std::size_t engine) {
    const std::size_t before = engines_[engine].host().handed_over;
    EXPECT_TRUE(engines_[engine].may_spin_on());
    return engines_[engine].host().handed_over != before;
  }
};

TEST_F(CorePages, show_ranks_without_a_segment_when_they_share_a_core) {
  const Membership members[] = {member_of_two(0, 2), member_of_two(1, 2)};
  host::CorePages first(engines_[0], members[0]);
  host::CorePages second(engines_[1], members[1]);
  second.adopt(0, copies_of(first.descriptors_for(1)));
  first.adopt(1, copies_of(second.descriptors_for(0)));
  engines_[1].host().core = 1;
  EXPECT_FALSE(hands_core_over(0));
  EXPECT_FALSE(hands_core_over(1));
  engines_[0].host().core = 1;
  EXPECT_TRUE(hands_core_over(0));
  EXPECT_TRUE(hands_core_over(1));
}

TEST_F(CorePages, are_not_there_where_ranks_take_turns_or_live_on_one_engine) {
  const Membership crowded = member_of_two(0, 1);
  EXPECT_TRUE(host::CorePages(engines_[0], crowded).descriptors_for(1).empty());
  Membership together = member_of_two(0, 2);
  together.peers[1].visible_process = together.peers[0].visible_process;
  together.peers[1].engine = together.peers[0].engine;
  EXPECT_TRUE(host::CorePages(engines_[0], together).descriptors_for(1).empty());
  Membership apart = member_of_two(0, 2);
  apart.peers[1].host_id[0] = std::byte{1};
  EXPECT_TRUE(host::CorePages(engines_[0], apart).descriptors_for(1).empty());
  EXPECT_TRUE(engines_[0].core_peers().empty());
}

TEST_F(CorePages, of_a_peer_may_be_missing_and_are_nothing_else) {
  const Membership member = member_of_two(0, 2);
  host::CorePages pages(engines_[0], member);
  pages.adopt(1, {});
  const SharedMemory larger = SharedMemory::create(std::size_t{1} << 20);
  const std::vector<int> too_many(2, larger.descriptor());
  EXPECT_THROW(pages.adopt(1, copies_of({larger.descriptor()})), Error);
  EXPECT_THROW(pages.adopt(1, copies_of(too_many)), Error);
  EXPECT_FALSE(hands_core_over(0));
}

}  // namespace
}  // namespace cohort::test::core_pages_test
