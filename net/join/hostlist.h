// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

inline constexpr std::size_t kMostHosts = 65536;

/// The hosts of a list as Slurm writes it, in its order: "x,n[08-11],rack[0-1]n[1,3-4]b". Numbers keep their
/// zeros, several brackets multiply, the last one runs fastest.
///
/// Throws InvalidArgument with what is wrong and where; `source` is where the text came from.
[[nodiscard]] std::vector<std::string> expand_hostlist(std::string_view text, std::string_view source);

/// The same hosts in the same order, written shortly: names that differ in their last number, in a row.
[[nodiscard]] std::string compress_hostlist(std::span<const std::string> hosts);

/// How many tasks each host has, as in SLURM_STEP_TASKS_PER_NODE: "2(x3),1" is 2, 2, 2, 1. Throws as above.
[[nodiscard]] std::vector<std::size_t> expand_counts(std::string_view text, std::string_view source);

}  // namespace cohort
