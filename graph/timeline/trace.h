// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/timeline/timeline.h>

#include <cstdint>
#include <span>
#include <string>

namespace cohort::graph {

/// Steps that follow each other, of one rank, in the JSON that Perfetto and chrome://tracing open: a process
/// for the rank, and in it a track each for compute, for communication, and for what of each bucket is
/// exposed. Traces of several ranks are joined by join_traces().
[[nodiscard]] std::string to_chrome_trace(const Graph& graph, std::span<const Timeline> steps,
                                          std::uint32_t rank = 0);

/// One trace of several, each as to_chrome_trace() gives it.
[[nodiscard]] std::string join_traces(std::span<const std::string> traces);

}  // namespace cohort::graph
