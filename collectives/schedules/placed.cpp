// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/placed.h>

namespace cohort {

Placed::Placed(Exec& x, const Slice& everywhere) : x_(x), places_(x.lease_places()) {
  for (Rank rank = 0; rank < x.size(); ++rank) places_.push_back({x.rank_of(rank), everywhere});
}

Placed::Placed(Exec& x, std::span<const PlacedSlice> wholes, std::size_t at, std::size_t bytes)
    : x_(x), places_(x.lease_places()) {
  for (const PlacedSlice& whole : wholes) places_.push_back({whole.rank, whole.slice.part(at, bytes)});
}

Placed::~Placed() { x_.give_back(std::move(places_)); }

}  // namespace cohort
