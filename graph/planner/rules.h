// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/plan.h>

#include <cstdint>
#include <vector>

namespace cohort::graph {

// How others cut gradients into buckets, for comparison on the same evaluation. All take items that are
// sorted by readiness.

/// All at the end, in one bucket: no overlap.
[[nodiscard]] Plan rule_of_one(std::vector<Item> items, const Cost& cost);
/// Each by itself.
[[nodiscard]] Plan rule_of_each(std::vector<Item> items, const Cost& cost);

/// By size, as PyTorch's DistributedDataParallel documents: a bucket closes when it has so many bytes, the
/// first one earlier.
[[nodiscard]] Plan rule_of_size(std::vector<Item> items, const Cost& cost, std::uint64_t most_bytes,
                                std::uint64_t first_bytes = std::uint64_t{1} << 20);

/// By time, as Horovod documents: every cycle takes what is ready, up to so many bytes at once, and the next
/// cycle begins when that is done, at the earliest a cycle's time later.
[[nodiscard]] Plan rule_of_cycle(std::vector<Item> items, const Cost& cost,
                                 std::uint64_t most_bytes = std::uint64_t{128} << 20, double cycle_us = 1000);

/// MG-WFBP (Shi et al., INFOCOM 2019): a bucket takes the next gradient too if that is ready before the
/// bucket could begin, or so soon after that the wait is less than a start-up.
[[nodiscard]] Plan rule_of_merging(std::vector<Item> items, const LinearCost& cost);

/// All of the above with their usual settings: size at 1, 5, 25, 50 and 100 MiB.
[[nodiscard]] std::vector<Plan> rules_of_others(const std::vector<Item>& items, const Cost& cost);

}  // namespace cohort::graph
