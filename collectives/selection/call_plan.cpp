// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/call_plan.h>

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

/// Where ranks share cores, the phase that ends a call without copies costs each a switch, and who could have
/// run ahead waits for it: less is copied.
bool is_worth_phase(const Call& call) noexcept {
  return call.op.is_one_way() ? call.message_bytes() >= tuning::slots::kReferOneWayFromOnSharedCores
                              : call.announced_bytes >= tuning::slots::kReferFromOnSharedCores;
}

/// Little data of ranks that share cores stays in slots.
std::size_t ring_bytes_for(const Call& call, const HostPlan& host, Rank ranks) noexcept {
  const std::size_t from =
      host.has_core_each() ? tuning::slots::kRingFrom : tuning::slots::kRingFromOnSharedCores;
  if (call.announced_bytes < from) return 0;
  return ring_bytes(ranks, host.goes_round, call.op->flow == Flow::from_root ? Givers::root : Givers::all);
}

/// By what one rank reads of another in one go.
bool pulls(const Call& call, const Reach& reach) noexcept {
  const std::size_t block_bytes = call.message_bytes() / pulled_shares_of(call.op, reach.ranks());
  return reach.pull.pulls(pull_use_of(call.op, reach.ranks()), block_bytes);
}

}  // namespace

CallPlan plan_for(const Call& call, const HostPlan& host, const Reach& reach) noexcept {
  CallPlan plan;
  if (!reach.is_host_wide) return plan;
  plan.is_at_once = std::max(call.message_bytes(), call.announced_bytes) <= tuning::slots::kMostInPlace;
  switch (call.algorithm->announces()) {
    case Announces::nothing:
    case Announces::windows: plan.pulls = pulls(call, reach); break;
    case Announces::data:
      if (call.algorithm->may_refer(call.announced_bytes)) {
        plan.may_refer_on_shared_cores = is_worth_phase(call);
        plan.may_refer = host.has_core_each() || plan.may_refer_on_shared_cores;
      }
      // Of what a root gives, the root knows whether there will be a phase, and the others as it has come.
      plan.may_run_ahead = call.op.is_one_way() && (call.op->flow == Flow::from_root || !plan.may_refer);
      plan.ring_bytes = ring_bytes_for(call, host, reach.ranks());
      break;
  }
  return plan;
}

std::string words_of_plan(const Call& call, const HostPlan& host, const Reach& reach) {
  if (!reach.is_host_wide || reach.ranks() == 1 || call.algorithm == nullptr) return {};
  const CallPlan plan = plan_for(call, host, reach);
  switch (call.algorithm->announces()) {
    case Announces::nothing:
      if (call.algorithm->scope() == Scope::network)
        return "over links, though all ranks map each other's memory";
      [[fallthrough]];
    case Announces::windows:
      return fmt::format("from mapped buffers without a copy; from private ones {}",
                         plan.pulls ? "by the kernel's copy" : "through the CCL buffers");
    case Announces::data: break;
  }
  std::string text = "data travels with arrivals";
  if (plan.ring_bytes != 0) text += fmt::format(", round {} bytes of each rank's memory", plan.ring_bytes);
  if (plan.may_refer) text += "; from mapped buffers without a copy";
  if (plan.may_run_ahead) text += "; a rank that only gives does not wait for the others";
  return text;
}

}  // namespace cohort
