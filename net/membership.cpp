// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/membership.h>

#include <fmt/format.h>

namespace cohort {

std::string PeerInfo::describe() const {
  if (world_rank) return fmt::format("rank {} (world rank {}, {}, pid {})", rank, *world_rank, host, process);
  return fmt::format("rank {} ({}, pid {})", rank, host, process);
}

}  // namespace cohort
