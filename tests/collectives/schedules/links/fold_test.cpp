// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/fold.h>

#include <gtest/gtest.h>

namespace cohort::fold_test {
namespace {

constexpr Rank kMost = 300;

TEST(Fold, puts_one_rank_or_two_neighbours_in_each_place) {
  for (Rank ranks = 1; ranks <= kMost; ++ranks) {
    const Fold fold(ranks);
    EXPECT_TRUE(std::has_single_bit(fold.places()));
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Rank first = fold.first_rank(fold.place(rank));
      EXPECT_EQ(fold.is_second(rank), rank == first + 1) << rank << " of " << ranks;
      EXPECT_EQ(fold.has_second(first), fold.first_rank(fold.place(rank) + 1) - first == 2);
      EXPECT_LE(rank - first, 1U);
    }
  }
}

/// So that halves of the places are halves of the ranks.
TEST(Fold, spreads_places_of_two_evenly) {
  for (Rank ranks = 1; ranks <= kMost; ++ranks) {
    const Fold fold(ranks);
    for (Rank half = fold.places() / 2; half != 0; half /= 2)
      for (Rank place = 0; place < fold.places(); place += 2 * half) {
        const Rank middle = fold.first_rank(place + half);
        const Rank lower = middle - fold.first_rank(place);
        const Rank upper = fold.first_rank(place + 2 * half) - middle;
        EXPECT_LE(lower > upper ? lower - upper : upper - lower, 1U) << ranks << " ranks";
      }
  }
}

TEST(Tally, counts_what_follows_one_another_and_what_one_rank_sends) {
  Tally tally(3);
  tally.add({.from = 0, .to = 1, .units = 4});
  tally.add({.from = 2, .to = 0, .units = 1, .parts = 2});
  tally.end_round();
  tally.add({.from = 1, .to = 2, .units = 3, .is_combined = true});
  tally.end_round();
  const Tally::Figures figures = tally.figures();
  EXPECT_EQ(figures.rounds, 2);
  EXPECT_EQ(figures.moved, 7) << "from rank 0 by rank 1 to rank 2";
  EXPECT_EQ(figures.reduced, 3);
  EXPECT_EQ(figures.messages, 4);
  EXPECT_EQ(figures.by_all, 8);
}

}  // namespace
}  // namespace cohort::fold_test
