// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/membership.h>

#include <fmt/format.h>

namespace cohort {

std::string PeerInfo::describe() const { return fmt::format("rank {} ({}, pid {})", rank, host, process); }

}  // namespace cohort
