// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/schedules/host_plan.h>
#include <cohort/collectives/selection/cost_model.h>

#include <cstddef>
#include <string>

namespace cohort {

/// How one call moves its bytes between the ranks of a host, once its algorithm is chosen: the same on every
/// rank. What only one rank knows, such as whether its buffers are mapped, it says as it arrives.
struct CallPlan {
  /// Data that travels with arrivals, from mapped memory, may stay where it lies (zero-copy).
  bool may_refer = false;
  /// The same on ranks that compute beside the call, or share their cores.
  bool may_refer_on_shared_cores = false;
  /// A rank may be over before all others have come.
  bool may_run_ahead = false;
  /// The local schedule leaves no turns to others on the engine.
  bool is_at_once = false;
  /// Between private buffers that do not travel with arrivals the kernel copies; else they are staged.
  bool pulls = false;
  /// Around how much of each rank's memory data that travels with arrivals goes; 0: it lies in slots.
  std::size_t ring_bytes = 0;
};

/// `host`: what holds for all calls of the communicator's.
[[nodiscard]] CallPlan plan_for(const Call& call, const HostPlan& host, const Reach& reach) noexcept;

/// In words, for explanations: "data travels with arrivals, round a ring of 1048576 bytes". Empty where ranks
/// are of several hosts.
[[nodiscard]] std::string words_of_plan(const Call& call, const HostPlan& host, const Reach& reach);

}  // namespace cohort
