// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/topology.h>

#include <string>

namespace cohort::sim {

/// Reads a topology from JSON: the members of Topology by their names; what is left out keeps its default.
/// Throws InvalidArgument with the file and the member at fault.
[[nodiscard]] Topology read_topology(const std::string& path);
[[nodiscard]] Topology parse_topology(const std::string& text, const std::string& name);

}  // namespace cohort::sim
