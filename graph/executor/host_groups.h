// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <optional>
#include <string>

namespace cohort::graph {

/// The groups of a communicator that reductions host by host take.
struct HostGroups {
  std::optional<Communicator> host;          ///< the ranks of this one's host
  std::optional<Communicator> across_hosts;  ///< those with the same place on their hosts; none: hosts differ
  std::optional<Communicator> leaders;       ///< the first rank of each host; none on others

  /// Makes them. A collective: all ranks call it.
  [[nodiscard]] Task<> open(Communicator& communicator);
};

}  // namespace cohort::graph
