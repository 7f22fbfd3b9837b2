// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/double_tree.h>

#include <gtest/gtest.h>

#include <bit>

namespace cohort::double_tree_test {
namespace {

constexpr Rank kMost = 257;

bool has_children(const DoubleTree& tree, Rank rank) { return tree.left(rank) != 0; }

/// Messages from the root to a rank.
Rank depth_of(const DoubleTree& tree, Rank rank) {
  Rank depth = 0;
  for (; rank != 0 && depth <= kMost; rank = tree.parent(rank)) ++depth;
  return depth;
}

TEST(DoubleTree, has_every_rank_below_the_root_and_is_as_high_as_the_next_power_of_two) {
  for (Rank ranks = 2; ranks <= kMost; ++ranks) {
    for (const bool is_second : {false, true}) {
      const DoubleTree tree(ranks, is_second);
      Rank height = 0;
      for (Rank rank = 1; rank < ranks; ++rank) height = std::max(height, depth_of(tree, rank));
      EXPECT_EQ(height, static_cast<Rank>(std::bit_width(ranks - 1))) << ranks << " ranks";
    }
  }
}

TEST(DoubleTree, names_a_child_where_the_child_names_a_parent) {
  for (Rank ranks = 2; ranks <= kMost; ++ranks) {
    for (const bool is_second : {false, true}) {
      const DoubleTree tree(ranks, is_second);
      Rank children = 0;
      for (Rank rank = 0; rank < ranks; ++rank) {
        for (const Rank child : {tree.left(rank), tree.right(rank)}) {
          if (child == 0) continue;
          ++children;
          EXPECT_EQ(tree.parent(child), rank) << ranks << " ranks, child " << child;
        }
        EXPECT_TRUE(tree.right(rank) == 0 || tree.left(rank) != 0) << "an only child is the left one";
      }
      EXPECT_EQ(children, ranks - 1) << ranks << " ranks";
    }
  }
}

TEST(DoubleTree, nobody_has_children_in_both) {
  for (Rank ranks = 2; ranks <= kMost; ++ranks) {
    const DoubleTree first(ranks, false);
    const DoubleTree second(ranks, true);
    for (Rank rank = 1; rank < ranks; ++rank)
      EXPECT_FALSE(has_children(first, rank) && has_children(second, rank)) << rank << " of " << ranks;
  }
}

TEST(DoubleTree, halves_are_cut_between_elements_of_any_type) {
  for (const std::size_t bytes : {0U, 1U, 8U, 16U, 24U, 1000U, 16380U}) {
    const Slice whole{WindowId::recv, 64, bytes};
    const Slice first = half_of(whole, 0);
    const Slice second = half_of(whole, 1);
    EXPECT_EQ(first.bytes + second.bytes, bytes);
    EXPECT_GE(first.bytes, second.bytes);
    EXPECT_EQ(second.offset, first.offset + first.bytes);
    EXPECT_TRUE(second.empty() || first.bytes % 16 == 0) << bytes;
  }
}

}  // namespace
}  // namespace cohort::double_tree_test
