// SPDX-License-Identifier: Apache-2.0
// What is known of an operator follows from its definition.
#include <cohort/collectives/operators/operator.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace cohort {
namespace {

bool is_in_result_of_another(Operator op, const Form& form, Rank giver) {
  for (Rank taker = 0; taker < form.ranks; ++taker) {
    if (taker == giver || op->extent(form, taker).recv == 0) continue;
    const Result result = op->result(form, taker);
    const auto has = [giver](const ResultPart& part) { return part.first <= giver && giver < part.end; };
    if (std::ranges::any_of(result, has)) return true;
  }
  return false;
}

TEST(Operator, gives_to_others_who_is_in_anothers_result) {
  for (const Operator op : all_operators()) {
    for (const Rank ranks : {2U, 3U, 4U, 7U}) {
      for (Rank root = 0; root < (op->has_root ? ranks : 1); ++root) {
        const Form form{.count = 4, .ranks = ranks, .root = root};
        for (Rank rank = 0; rank < ranks; ++rank) {
          const bool gives = op->extent(form, rank).send != 0 && op.gives_to_others(rank, ranks, root);
          EXPECT_EQ(gives, is_in_result_of_another(op, form, rank))
              << to_string(op) << ", rank " << rank << " of " << ranks << ", root " << root;
        }
      }
    }
  }
}

TEST(Operator, has_givers_who_give_to_themselves_alone) {
  EXPECT_FALSE(operator_of<Reduce>.gives_to_others(1, 3, 1));
  EXPECT_TRUE(operator_of<Reduce>.gives_to_others(2, 3, 1));
  EXPECT_FALSE(operator_of<GatherV>.gives_to_others(0, 2, 0));
  EXPECT_TRUE(operator_of<Broadcast>.gives_to_others(2, 3, 2));
  EXPECT_FALSE(operator_of<Scan>.gives_to_others(2, 3, 0));
  EXPECT_TRUE(operator_of<ExclusiveScan>.gives_to_others(0, 3, 0));
  EXPECT_TRUE(operator_of<AllReduce>.gives_to_others(2, 3, 0));
}

}  // namespace
}  // namespace cohort
