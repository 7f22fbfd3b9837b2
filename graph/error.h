// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cohort::graph {

/// What went wrong with a graph, by the names that graph engines report.
enum class ErrorCode : std::uint8_t {
  dist_graph_build,   ///< GE_DIST_GRAPH_BUILD_ERROR: the graph, or what is asked of it, makes no sense
  all_reduce_insert,  ///< GE_ALLREDUCE_INSERT_FAILED: a gradient cannot be reduced where it stands
  memory_overflow,    ///< GE_MEMORY_OVERFLOW: the graph needs more memory than it may have
};

/// "GE_DIST_GRAPH_BUILD_ERROR" and so on.
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;

/// The Error of a graph: "CODE: node NAME: cause; advice". Its kind is InvalidArgument, or ResourceLimit
/// where memory does not suffice.
class GraphError : public Error {
 public:
  GraphError(ErrorCode code, std::string node, std::string cause, std::string advice);

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// The node or tensor at fault; empty where no single one is.
  [[nodiscard]] const std::string& node() const noexcept { return node_; }
  [[nodiscard]] const std::string& cause() const noexcept { return cause_; }
  /// What to do next.
  [[nodiscard]] const std::string& advice() const noexcept { return advice_; }

 private:
  ErrorCode code_;
  std::string node_;
  std::string cause_;
  std::string advice_;
};

}  // namespace cohort::graph
