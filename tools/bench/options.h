// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/tools/bench/exercise.h>
#include <cohort/tools/launch/hosts_launcher.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cohort::bench {

/// The start line keeps a place for each.
inline constexpr Rank kMostRanks = 256;
/// Samples that are kept of one point.
inline constexpr std::size_t kMostIterations = 20'000;

/// Who computes while an all_reduce runs: every rank on its core; rank 0 alone; or a device, which leaves all
/// cores free: the ranks only wait for it.
enum class Computing { all, one, device };

enum class Format { table, csv, json };

/// What `cohort bench` was asked for. The same in the process that was started and in the ranks that it
/// starts.
struct Options {
  std::vector<Exercise> exercises;
  std::vector<std::size_t> sizes_bytes;
  bool are_sizes_listed = false;  ///< each is asked for, not a range of them
  Rank ranks = 2;
  std::string transport;  ///< empty: COHORT_TRANSPORT, or what the library chooses
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::sum;
  Rank root = 0;
  std::string algorithm;  ///< empty: what is selected

  std::optional<std::size_t> iterations;  ///< nothing: until the budget is used
  std::optional<std::size_t> warmup;
  std::chrono::nanoseconds budget = std::chrono::milliseconds(100);
  std::optional<std::chrono::nanoseconds> timeout;
  /// The round trip between two cores is measured around each point, which may wait so long for near ones.
  std::optional<std::chrono::nanoseconds> near_wait;

  std::optional<Computing> overlap;  ///< all_reduce beside computing is measured, instead of the exercises

  bool is_in_process = false;  ///< ranks are threads
  bool is_joined = false;      ///< this process is a rank of a job around it, perhaps on several hosts
  bool is_shared = false;      ///< buffers that peers map
  bool is_in_place = false;
  bool rewrites_inputs = true;
  bool checks_results = true;
  bool pins_ranks = true;
  Format format = Format::table;
  std::string picture;                ///< a file for a chart of what was measured; empty: none
  std::optional<HostsOptions> hosts;  ///< ranks are started there

  /// Throws InvalidArgument for what each option allows alone but not together.
  void check() const;
};

/// `least`, `least` * factor, ... up to `most`.
[[nodiscard]] std::vector<std::size_t> sizes_between(std::size_t least, std::size_t most, std::size_t factor);

/// What one operation moves, in elements of one rank; of the root where there is one.
struct Shape {
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t count = 0;       ///< as nccl-tests counts: of one rank's block where a buffer has several
  std::size_t size_bytes = 0;  ///< of the larger buffer
};

/// `bytes` is the larger buffer of a rank: rounded down to whole elements, the same number for each block,
/// and at least one.
[[nodiscard]] Shape shape_of(Exercise exercise, std::size_t bytes, std::size_t element_bytes, Rank ranks);

}  // namespace cohort::bench
