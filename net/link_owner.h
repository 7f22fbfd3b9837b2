// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/failure.h>
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

/// Whether such an error says what this rank ran out of, cannot do or does wrong, whoever its peer is.
[[nodiscard]] constexpr bool is_own_fault(ErrorKind kind) noexcept {
  return kind == ErrorKind::ResourceLimit || kind == ErrorKind::Unsupported || kind == ErrorKind::Internal ||
         kind == ErrorKind::InvalidArgument;
}
/// What went wrong between `own` and `peer`, laid to one of them: to whom it names already; else, by its
/// kind, to this rank itself or to the peer. Without memory: out_of_memory().
[[nodiscard]] inline Error blamed_on(const Error& error, Rank own, Rank peer) noexcept {
  if (error.culprit()) return error;
  return error_unless_out_of_memory(
      [&] { return error.with_culprit(is_own_fault(error.kind()) ? own : peer); });
}

/// The communicator, as links see it. Threads: the owning engine.
class LinkOwner {
 public:
  [[nodiscard]] virtual const RunningOperation& running() const noexcept = 0;
  /// The link to `peer` broke, its bytes make no sense, or this rank cannot go on with it: blamed_on() one of
  /// them. The communicator finds the cause and cancels what runs.
  virtual void link_failed(Rank peer, const Error& error) noexcept = 0;
  /// The link to `peer` is about to be closed, or was not made, since this rank gives up an operation amid
  /// its bytes: the peer is told, so that it waits for the cause and does not take the end of the link for
  /// one.
  virtual void gives_up(Rank /*peer*/) noexcept {}
  /// Whether this rank ran something else under this sequence number, as far as it remembers.
  [[nodiscard]] virtual bool ran_another(std::uint64_t sequence, const Signature& than) const noexcept {
    return sequence == running().sequence && running().signature != than;
  }
  /// Whether that rank's process is known to have ended, as of now.
  [[nodiscard]] virtual bool has_process_ended(Rank) const noexcept { return false; }
  /// `peer` runs, or ran, something else under this sequence number.
  virtual void mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept = 0;

 protected:
  ~LinkOwner() = default;
};

}  // namespace cohort
