// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/error.h>

#include <fmt/format.h>

#include <utility>

namespace cohort::graph {
namespace {

ErrorKind kind_of(ErrorCode code) {
  return code == ErrorCode::memory_overflow ? ErrorKind::ResourceLimit : ErrorKind::InvalidArgument;
}

std::string text_of(ErrorCode code, const std::string& node, const std::string& cause,
                    const std::string& advice) {
  return fmt::format("{}: {}{}{}; {}", to_string(code), node, node.empty() ? "" : ": ", cause, advice);
}

}  // namespace

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::dist_graph_build: return "GE_DIST_GRAPH_BUILD_ERROR";
    case ErrorCode::all_reduce_insert: return "GE_ALLREDUCE_INSERT_FAILED";
    case ErrorCode::memory_overflow: return "GE_MEMORY_OVERFLOW";
  }
  return "GE_UNKNOWN_ERROR";
}

GraphError::GraphError(ErrorCode code, std::string node, std::string cause, std::string advice)
    : Error(kind_of(code), text_of(code, node, cause, advice)),
      code_(code),
      node_(std::move(node)),
      cause_(std::move(cause)),
      advice_(std::move(advice)) {}

}  // namespace cohort::graph
