// SPDX-License-Identifier: Apache-2.0
// What is known of an operator follows from its definition.
#include <cohort/collectives/schedules/operators/operator.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cohort::operator_test {
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

/// Whether another rank gets that element of what `giver` gives.
bool is_wanted_by_another(Operator op, const Form& form, Rank giver, std::size_t element) {
  for (Rank taker = 0; taker < form.ranks; ++taker) {
    if (taker == giver || op->extent(form, taker).recv == 0) continue;
    const Result result = op->result(form, taker);
    const auto takes = [&](const ResultPart& part) {
      return part.first <= giver && giver < part.end && part.from <= element &&
             element < part.from + part.elements;
    };
    if (std::ranges::any_of(result, takes)) return true;
  }
  return false;
}

TEST(Operator, keeps_what_nobody_else_gets_of_an_input_that_others_get_some_of) {
  for (const Operator op : all_operators()) {
    for (const Rank ranks : {2U, 3U, 5U}) {
      std::vector<std::size_t> counts(how_many(op->counts, ranks));
      for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = 1 + i % 3;
      for (Rank root = 0; root < (op->has_root ? ranks : 1); ++root) {
        const Form form{.count = 4, .ranks = ranks, .root = root, .counts = counts};
        for (Rank rank = 0; rank < ranks; ++rank) {
          if (!op.gives_to_others(rank, ranks, root)) continue;
          const Stretch kept = op->kept == nullptr ? Stretch{} : op->kept(form, rank);
          for (std::size_t at = 0; at < op->extent(form, rank).send; ++at) {
            const bool is_kept = kept.at <= at && at < kept.at + kept.elements;
            EXPECT_NE(is_kept, is_wanted_by_another(op, form, rank, at))
                << to_string(op) << ", element " << at << " of rank " << rank << " of " << ranks << ", root "
                << root;
          }
        }
      }
    }
  }
}

/// By the definition of its result: those whose input some of it is, or others than the rank itself, for a
/// barrier.
bool depends_on(Operator op, const Form& form, Rank rank, Rank other) {
  if (!op->has_data) return true;
  if (op->extent(form, rank).recv == 0) return false;
  const Result result = op->result(form, rank);
  return std::ranges::any_of(result,
                             [&](const ResultPart& part) { return part.first <= other && other < part.end; });
}

TEST(Operator, knows_whom_a_rank_needs) {
  for (const Operator op : all_operators()) {
    for (Rank ranks = 2; ranks <= 4; ++ranks) {
      for (Rank root = 0; root < ranks; ++root) {
        const Form form{.count = 2, .ranks = ranks, .root = root};
        for (Rank rank = 0; rank < ranks; ++rank) {
          for (Rank other = 0; other < ranks; ++other) {
            if (other == rank) continue;
            EXPECT_EQ(op.needs(rank, other, root), depends_on(op, form, rank, other))
                << to_string(op) << ", rank " << rank << " of " << ranks << " and " << other << ", root "
                << root;
          }
        }
      }
    }
  }
}

TEST(Operator, knows_whom_others_need) {
  for (const Operator op : all_operators()) {
    for (Rank ranks = 2; ranks <= 4; ++ranks) {
      for (Rank root = 0; root < ranks; ++root) {
        for (Rank rank = 0; rank < ranks; ++rank) {
          bool is_needed = false;
          for (Rank other = 0; other < ranks; ++other)
            is_needed = is_needed || (other != rank && op.needs(other, rank, root));
          EXPECT_EQ(op.gives_to_others(rank, ranks, root), is_needed)
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
}  // namespace cohort::operator_test
