// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/topo/host_description.h>

namespace cohort::topo {

/// Fills in packages, cores and memories.
void describe_processors(HostDescription& host);

}  // namespace cohort::topo
