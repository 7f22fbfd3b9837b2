// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/dissemination.h>

#include <cohort/engine/assert.h>

#include <algorithm>

namespace cohort {

Dissemination::Dissemination(Order order, Rank ranks) noexcept : order_(order), ranks_(ranks) {
  const auto rounds = static_cast<Rank>(std::bit_width(ranks - 1));
  COHORT_ASSERT(rounds <= kMostRounds, "{} ranks are more than {} rounds reach", ranks, kMostRounds);
  Rank held = 1;
  for (Rank index = 0; index < rounds; ++index) {
    const Rank distance = Rank{1} << (order == Order::nearest_first ? index : rounds - 1 - index);
    Round& round = rounds_[index];
    round = {distance, held, order == Order::nearest_first ? held - 1 : place_of(2 * distance * (held - 1))};
    held += sent(round).slices();
    count_ = index + 1;
  }
}

Dissemination::Runs Dissemination::sent(const Round& round, Rank reach) const noexcept {
  const Rank most = ranks_ - reach;
  if (order_ == Order::nearest_first) return {{0, std::min(round.held, most)}, {}};
  // Ways are twice the distance apart, so that only the longest can be too long.
  const Rank longest = 2 * round.distance * (round.held - 1);
  if (longest < most) return {{0, round.held}, {}};
  const Rank behind = round.farthest_at + 1;
  return {{0, round.farthest_at}, {behind, round.held - behind}};
}

Dissemination::Runs Dissemination::received(const Round& round, Rank reach) const noexcept {
  Runs runs = sent(round, reach);
  const Rank left_out = round.held - sent(round).slices();
  runs.first.begin = round.held;
  runs.second.begin += round.held - (order_ == Order::nearest_first ? 0 : left_out);
  return runs;
}

Rank Dissemination::way_of(Rank place) const noexcept {
  Rank way = 0;
  for (Rank index = count_; index-- > 0;) {
    const Round& round = rounds_[index];
    if (place < round.held) continue;
    const Runs runs = sent(round);
    const Rank which = place - round.held;
    place = which < runs.first.count ? which : runs.second.begin + which - runs.first.count;
    way += round.distance;
  }
  return way;
}

Rank Dissemination::place_of(Rank way) const noexcept {
  Rank place = 0;
  for (const Round& round : rounds()) {
    if ((way & round.distance) == 0) continue;
    const Runs runs = sent(round);
    const bool is_in_first = place < runs.first.count;
    place = round.held + (is_in_first ? place : runs.first.count + place - runs.second.begin);
  }
  return place;
}

Cost Dissemination::cost_of_phase(double slice_bytes) const noexcept {
  Rank parts = 0;
  for (const Round& round : rounds()) parts += sent(round).parts();
  const double moved = slice_bytes * (ranks_ - 1);
  return {.rounds = static_cast<double>(count_),
          .bytes_moved = moved,
          .messages = static_cast<double>(parts) * ranks_,
          .bytes_by_all = moved * ranks_};
}

namespace {

using Order = Dissemination::Order;

/// All ranks at once, each named by its way to the root, so that data goes from a way to a shorter one; or
/// backwards, combining.
void add_phase(Tally& tally, const Dissemination::Round& round, Dissemination::Runs runs, Rank ranks,
               bool is_backwards) {
  for (Rank way = 0; way < ranks; ++way) {
    const Rank other = (way + ranks - round.distance) % ranks;
    tally.add({.from = is_backwards ? other : way,
               .to = is_backwards ? way : other,
               .units = runs.slices(),
               .parts = runs.parts(),
               .is_combined = is_backwards});
  }
  tally.end_round();
}

/// Towards the root, or backwards, from it.
void add_rooted(Tally& tally, const Dissemination& rule, const Dissemination::Round& round, Rank ranks,
                bool is_backwards) {
  for (Rank way = 0; way < ranks; ++way) {
    if (rule.has_left(round, way) || (way & round.distance) == 0) continue;
    const Rank other = way - round.distance;
    const Dissemination::Runs runs = rule.sent(round, way);
    tally.add({.from = is_backwards ? other : way,
               .to = is_backwards ? way : other,
               .units = runs.slices(),
               .parts = runs.parts()});
  }
  tally.end_round();
}

template <Order order>
Tally scatter_and_spread(Rank ranks) {
  const Dissemination rule(order, ranks);
  Tally tally(ranks);
  for (Rank i = rule.round_count(); i-- > 0;) add_rooted(tally, rule, rule.round(i), ranks, true);
  for (const Dissemination::Round& round : rule.rounds())
    add_phase(tally, round, rule.sent(round), ranks, false);
  return tally;
}

template <Order order>
Tally combine_and_gather(Rank ranks) {
  const Dissemination rule(order, ranks);
  Tally tally(ranks);
  for (Rank i = rule.round_count(); i-- > 0;)
    add_phase(tally, rule.round(i), rule.sent(rule.round(i)), ranks, true);
  for (const Dissemination::Round& round : rule.rounds()) add_rooted(tally, rule, round, ranks, false);
  return tally;
}

}  // namespace

const Tally::Figures& figures_of_scatter_and_spread(Order order, Rank ranks) {
  return order == Order::nearest_first ? Tally::of<scatter_and_spread<Order::nearest_first>>(ranks)
                                       : Tally::of<scatter_and_spread<Order::farthest_first>>(ranks);
}

const Tally::Figures& figures_of_combine_and_gather(Order order, Rank ranks) {
  return order == Order::nearest_first ? Tally::of<combine_and_gather<Order::nearest_first>>(ranks)
                                       : Tally::of<combine_and_gather<Order::farthest_first>>(ranks);
}

}  // namespace cohort
