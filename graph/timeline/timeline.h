// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cohort::graph {

/// When a node ran: microseconds from the beginning of its step.
struct Span {
  NodeId node{};
  NodeKind kind = NodeKind::compute;
  double begin_us = 0;
  double end_us = 0;

  [[nodiscard]] double us() const noexcept { return end_us - begin_us; }
};

/// One step of one rank, measured or predicted: what ran when, in the order in which it began.
struct Timeline {
  std::vector<Span> spans;

  [[nodiscard]] double step_us() const noexcept;
};

/// A collective, and what of it nothing was computed beside.
struct ExposedPart {
  NodeId node{};
  std::vector<Span> parts;

  [[nodiscard]] double us() const noexcept;
};

/// What a step comes to.
struct Summary {
  double step_us = 0;
  double compute_us = 0;
  double communication_us = 0;
  double exposed_us = 0;  ///< of communication, beside which nothing is computed
  double backward_end_us = 0;
  double communication_end_us = 0;

  /// The part of communication that is hidden; 1 where there is none.
  [[nodiscard]] double overlap() const noexcept;
  /// 1 - max(communication, compute) / (communication + compute), as some monitors report: always below 0.5,
  /// and the same whether anything is hidden or not.
  [[nodiscard]] double seed_efficiency() const noexcept;
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] std::vector<ExposedPart> exposed_parts(const Timeline& timeline);
[[nodiscard]] Summary summarize(const Graph& graph, const Timeline& timeline);

}  // namespace cohort::graph
