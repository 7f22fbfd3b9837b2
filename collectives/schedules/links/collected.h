// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/placed.h>

namespace cohort {

/// Everybody's operand of a combination over links: the own one where it lies, those of peers received into
/// scratch, one behind the other: (p-1) operands.
class Collected : Immovable {
 public:
  Collected(Exec& x, const Slice& own) : x_(x), operands_(x, own) {
    std::size_t at = 0;
    for (Rank peer = 0; peer < x.size(); ++peer) {
      if (peer == x.rank()) continue;
      operands_.replace(peer, x.scratch(at, own.bytes));
      at += own.bytes;
    }
    operands_.bring_home(x.here());
  }

  /// Where that peer's operand is received.
  [[nodiscard]] const Slice& from(Rank peer) const noexcept { return operands_.slices()[peer].slice; }

  /// When all are there: combines them in one pass, in rank order (determinism D3).
  [[nodiscard]] LocalStep combine_into(const Slice& result, const Combine& combine) noexcept {
    output_ = {x_.here(), result};
    return x_.reduce(std::span(&output_, 1), operands_.slices(), combine);
  }

 private:
  Exec& x_;
  Placed operands_;
  PlacedSlice output_;
};

}  // namespace cohort
