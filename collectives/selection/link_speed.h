// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// What moving data over TCP costs the cores of a host, measured when a communicator is made.
///
/// Each rank measures by itself, on a connection to itself over loopback, tells the others in its hello, and
/// all take the same combination of all ranks' values: then all come to the same choices. It tells nothing of
/// the network between hosts, only of the work at its ends.
struct LinkSpeed {
  double message_us = 5;              ///< a core's time to send a small message and to take it
  double byte_us = 1.0 / 5000;        ///< the same for a byte of a large one
  double combine_us = 1.0 / 20000;    ///< a core's time to combine a byte that it received
  double copy_us = 1.0 / 20000;       ///< a core's time to copy a byte within its memory
  double ranks_per_core = 1;          ///< above 1 where ranks share cores
  std::size_t cache_bytes = 1 << 20;  ///< of a core's own cache: what is on its way in a host should fit
  bool keeps_figures = false;         ///< for later jobs, so that measuring more pays: COHORT_CACHE
  bool is_measured = false;           ///< the times: by somebody, where ranks have agreed

  static constexpr Duration kMostTime = std::chrono::milliseconds(100);
  /// Short beside joining. Where loopback cannot be used, or takes longer than the budget, what it would have
  /// measured stays as above.
  static Task<LinkSpeed> measure(Engine& engine, double ranks_per_core, Duration budget = kMostTime);
  /// As ranks tell it to each other; parse(text()) is what they compute with.
  [[nodiscard]] std::string text() const;
  /// Throws ProtocolError for anything that text() does not write.
  static LinkSpeed parse(std::string_view text);
  /// Of each time the median of those who have measured, the most oversubscribed machine, the smallest cache;
  /// whether all keep figures. At least one.
  static LinkSpeed agreed(const std::vector<LinkSpeed>& of_ranks);

  /// The same as if nothing had been measured: what is known of the hosts stays.
  [[nodiscard]] LinkSpeed unmeasured() const noexcept {
    LinkSpeed known;
    known.ranks_per_core = ranks_per_core;
    known.cache_bytes = cache_bytes;
    return known;
  }

  bool operator==(const LinkSpeed&) const = default;
};

}  // namespace cohort
