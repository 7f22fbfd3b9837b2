// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/tree.h>

namespace cohort {
namespace {

/// visit(ranks of the subtree) for each child of the root, the farthest one, with the largest subtree, first.
template <class Visit>
void for_children(Rank ranks, Visit visit) {
  for (Rank distance = std::bit_ceil(ranks) / 2; distance != 0; distance /= 2)
    if (distance < ranks) visit(std::min(distance, ranks - distance));
}

/// The largest of measure(ranks of the subtree, ranks of all subtrees so far) over the children.
template <class Measure>
Rank largest(Rank ranks, Measure measure) {
  Rank most = 0;
  Rank so_far = 0;
  for_children(ranks, [&](Rank below) { most = std::max(most, measure(below, so_far += below)); });
  return most;
}

Rank height_of(Rank ranks) {
  return largest(ranks, [](Rank below, Rank) { return 1 + height_of(below); });
}
Rank sends_of(Rank ranks) {
  Rank sent = 0;
  return largest(ranks, [&](Rank below, Rank) { return ++sent + sends_of(below); });
}
Rank path_up(Rank ranks) {
  return largest(ranks, [](Rank below, Rank) { return below + path_up(below); });
}
Rank path_down(Rank ranks) {
  return largest(ranks, [](Rank below, Rank sent) { return sent + path_down(below); });
}
double sizes_in(Rank ranks) {
  double sizes = 0;
  for_children(ranks, [&](Rank below) { sizes += below + sizes_in(below); });
  return sizes;
}

}  // namespace

Tree::Figures::Figures(Rank of_ranks)
    : ranks(of_ranks),
      children(static_cast<Rank>(std::bit_width(of_ranks - 1))),
      height(height_of(of_ranks)),
      sends(sends_of(of_ranks)),
      largest_path_up(path_up(of_ranks)),
      largest_path_down(path_down(of_ranks)),
      sizes_of_subtrees(sizes_in(of_ranks)) {}

const Tree::Figures& Tree::figures(Rank ranks) {
  thread_local Figures last(ranks);
  if (last.ranks != ranks) last = Figures(ranks);
  return last;
}

}  // namespace cohort
