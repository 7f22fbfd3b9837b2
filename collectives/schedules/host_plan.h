// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/memory/user_windows.h>
#include <cohort/net/core_supply.h>

#include <cstddef>
#include <cstdint>

namespace cohort {

/// How a call moves its bytes between the ranks of one host: what a schedule may ask beside ranks, counts and
/// root. The same on every rank.
struct HostPlan {
  CoreSupply cores = CoreSupply::shared;
  UserWindows windows = UserWindows::staged;
  /// Whether what all leave for each other goes round rings; see memory/staging.h.
  bool goes_round = true;
  /// How many bytes of ccl_in and of ccl_out a message that is larger passes through piece by piece: all, or
  /// as many as stay in caches.
  std::size_t stage_bytes = 0;
  /// How many calls, this one included, have passed anything through them.
  std::uint64_t staged_calls = 0;

  /// Whether all ranks of the host can run at the same time.
  [[nodiscard]] constexpr bool has_core_each() const noexcept { return cores != CoreSupply::shared; }
  /// Whether every rank's user windows are mapped here: then copies and reductions may name any rank's
  /// slices. Without it, only ccl_in and ccl_out of peers may be named, on a host-wide group.
  [[nodiscard]] constexpr bool maps() const noexcept { return windows == UserWindows::mapped; }
  /// Whether pull() and push() reach every rank's user windows, because they are mapped or because the kernel
  /// copies for us and that pays for a message of this size.
  [[nodiscard]] constexpr bool reaches() const noexcept { return windows != UserWindows::staged; }

  bool operator==(const HostPlan&) const = default;
};

}  // namespace cohort
