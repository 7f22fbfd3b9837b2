// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/explain.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::graph {
namespace {

/// Others are compared by what they come to beside the plan.
std::string line_of(const Plan& other, const Plan& plan) {
  const double more = plan.finish_us > 0 ? 100 * (other.finish_us / plan.finish_us - 1) : 0;
  return fmt::format("  {:<22} {:>6} buckets, ends at {:>12.1f} us, exposed {:>12.1f} us ({:+.1f} %)\n",
                     other.rule, other.buckets.size(), other.finish_us, other.exposed_us(), more);
}

}  // namespace

std::string explain(const Plan& plan, const Cost& cost, std::span<const Plan> others,
                    const std::optional<PlanMeasurement>& measured) {
  const double backward_us = plan.items.empty() ? 0 : plan.items.back().ready_us;
  std::string text = fmt::format("plan {:016x}: {} gradients in {} buckets by {}\n", plan.hash(),
                                 plan.items.size(), plan.buckets.size(), plan.rule);
  if (cost.linear)
    text += fmt::format("cost: {:.1f} us from idle, {:.1f} us queued, {:.3f} us for each KiB\n",
                        cost.linear->idle_us, cost.linear->queued_us, 1024 * cost.linear->byte_us);
  text += fmt::format("{:>6} {:>9} {:>12} {:>14} {:>14}  {}\n", "bucket", "gradients", "bytes", "ready (us)",
                      "end (us)", "from .. to");
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    text += fmt::format("{:>6} {:>9} {:>12} {:>14.1f} {:>14.1f}  {} .. {}\n", i, bucket.size(), bucket.bytes,
                        bucket.ready_us, bucket.end_us, plan.items[bucket.first].name,
                        plan.items[bucket.end - 1].name);
  }
  const double bound = std::max(lower_bound_us(plan.items, cost), backward_us);
  text += fmt::format("backward ends at {:.1f} us\n", backward_us);
  text += fmt::format("predicted: ends at {:.1f} us, exposed {:.1f} us\n", plan.finish_us, plan.exposed_us());
  if (measured)
    text += fmt::format("measured:  ends at {:.1f} us, exposed {:.1f} us\n", measured->finish_us,
                        measured->exposed_us);
  text += fmt::format("no plan ends before {:.1f} us: exposed {:.1f} us\n", bound, bound - backward_us);
  if (!others.empty()) text += "other rules:\n";
  for (const Plan& other : others) text += line_of(other, plan);
  return text;
}

}  // namespace cohort::graph
