// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/world/platform.h>

#include <fmt/format.h>

namespace cohort::world {

std::string WorldPlatform::host_name() { return fmt::format("host{}", world_.settings().host_of[process_]); }

void WorldPlatform::yield_core() noexcept {
  world_.step(process_);
  if (world_.scheduler().random().chance(50)) world_.scheduler().pause(process_);
}

void WorldPlatform::compute(Duration takes) { world_.scheduler().compute(process_, takes); }

}  // namespace cohort::world
