// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/fold.h>

namespace cohort {

Rank FoldTally::slices(Rank place, Rank distance) const noexcept {
  const Rank begin = place & ~(distance - 1);
  return fold_.first_rank(begin + distance) - fold_.first_rank(begin);
}

void FoldTally::fold(Rank units, bool is_combined) {
  for (Rank rank = 1; rank < ranks_; ++rank)
    if (fold_.is_second(rank))
      tally_.add({.from = rank, .to = rank - 1, .units = units, .is_combined = is_combined});
  tally_.end_round();
}

void FoldTally::unfold(Rank units) {
  for (Rank rank = 1; rank < ranks_; ++rank)
    if (fold_.is_second(rank)) tally_.add({.from = rank - 1, .to = rank, .units = units});
  tally_.end_round();
}

void FoldTally::exchange(Rank distance, Rank units, bool is_combined) {
  for (Rank place = 0; place < fold_.places(); ++place)
    tally_.add({.from = fold_.first_rank(place),
                .to = fold_.first_rank(place ^ distance),
                .units = units,
                .is_combined = is_combined});
  tally_.end_round();
}

void FoldTally::halve() {
  for (Rank distance = fold_.places() / 2; distance != 0; distance /= 2) {
    for (Rank place = 0; place < fold_.places(); ++place)
      tally_.add({.from = fold_.first_rank(place ^ distance),
                  .to = fold_.first_rank(place),
                  .units = slices(place, distance),
                  .is_combined = true});
    tally_.end_round();
  }
}

void FoldTally::double_up(bool root_has_all) {
  for (Rank distance = 1; distance < fold_.places(); distance *= 2) {
    for (Rank place = 0; place < fold_.places(); ++place)
      tally_.add({.from = fold_.first_rank(place),
                  .to = fold_.first_rank(place ^ distance),
                  .units = root_has_all && place == distance ? 0 : slices(place, distance)});
    tally_.end_round();
  }
}

void FoldTally::gather() {
  for (Rank distance = 1; distance < fold_.places(); distance *= 2) {
    for (Rank place = distance; place < fold_.places(); place += 2 * distance)
      tally_.add({.from = fold_.first_rank(place),
                  .to = fold_.first_rank(place - distance),
                  .units = slices(place, distance)});
    tally_.end_round();
  }
}

void FoldTally::scatter() {
  for (Rank distance = fold_.places() / 2; distance != 0; distance /= 2) {
    for (Rank place = distance; place < fold_.places(); place += 2 * distance)
      tally_.add({.from = fold_.first_rank(place - distance),
                  .to = fold_.first_rank(place),
                  .units = slices(place, distance)});
    tally_.end_round();
  }
}

}  // namespace cohort
