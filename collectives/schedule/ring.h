// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/exchange.h>

namespace cohort {

/// The ring that every rank forms with its neighbours: each step passes a block ahead and takes one from
/// behind.
class Ring {
 public:
  explicit Ring(Exec& x) : x_(x), next_(x.link(x.ahead(1))), previous_(x.link(x.behind(1))) {}

  [[nodiscard]] Rank size() const noexcept { return x_.size(); }
  /// The block number `distance` behind this rank's own, around the ring.
  [[nodiscard]] Rank behind(Rank distance) const noexcept { return x_.behind(distance); }

  /// Passes `out` on and takes `in`.
  [[nodiscard]] ForkJoin shift(Slice out, Slice in) { return exchange(x_, next_, out, previous_, in); }
  /// Passes `out` on and combines what comes into `in`.
  [[nodiscard]] ForkJoin shift_reduce(Slice out, Slice in, Reducer reducer) {
    return exchange_reduce(x_, next_, out, previous_, in, reducer);
  }

 private:
  Exec& x_;
  Link& next_;
  Link& previous_;
};

}  // namespace cohort
