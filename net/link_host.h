// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/net/rank.h>
#include <cohort/net/slice.h>

#include <cstdint>

namespace cohort {

/// What all ranks must agree on about one collective, packed: it travels in the first frame or cache line of
/// each. The communicator packs and explains it; links only compare.
struct Signature {
  std::uint64_t what = 0;   ///< operator, type, reduction, algorithm, root
  std::uint64_t count = 0;  ///< elements
  bool operator==(const Signature&) const = default;
};

/// The collective that a communicator is running now, as links see it.
struct RunningOperation {
  std::uint64_t sequence = 0;  ///< the number of the collective that runs, or that ran last; the first is 1
  bool is_running = false;
  Signature signature;
  WindowTable windows;  ///< this rank's
};

/// The communicator, as links see it. Threads: the owning engine.
class LinkHost {
 public:
  [[nodiscard]] virtual const RunningOperation& running() const noexcept = 0;
  /// The link to `peer` broke or its bytes make no sense. The communicator finds the cause and cancels what
  /// runs.
  virtual void link_failed(Rank peer, const Error& error) noexcept = 0;
  /// `peer` runs something else under this sequence number.
  virtual void mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept = 0;

 protected:
  ~LinkHost() = default;
};

}  // namespace cohort
