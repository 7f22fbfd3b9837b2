// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/collectives/selection/explanation.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cohort::explain {

/// What `cohort explain` was asked for.
struct Options {
  std::vector<Operator> operators;
  std::vector<std::size_t> sizes_bytes;
  std::optional<Rank> ranks;  ///< nothing: two, or those of the job that this process is a rank of
  std::string transport;      ///< empty: COHORT_TRANSPORT, or what the library chooses
  DataType type = DataType::float32;
  std::string algorithm;                   ///< empty: what is selected
  std::optional<Determinism> determinism;  ///< nothing: COHORT_DETERMINISM
  bool is_verbose = false;                 ///< every candidate, not only the chosen one
  bool is_json = false;
};

}  // namespace cohort::explain
