// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/timeline/timeline.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::graph {
namespace {

/// Times in which something is computed, without overlaps.
std::vector<Span> computing(const Timeline& timeline) {
  std::vector<Span> spans;
  for (const Span& span : timeline.spans)
    if (span.kind == NodeKind::compute && span.us() > 0) spans.push_back(span);
  std::ranges::sort(spans, {}, &Span::begin_us);
  std::vector<Span> merged;
  for (const Span& span : spans)
    if (!merged.empty() && span.begin_us <= merged.back().end_us)
      merged.back().end_us = std::max(merged.back().end_us, span.end_us);
    else
      merged.push_back(span);
  return merged;
}

}  // namespace

double Timeline::step_us() const noexcept {
  double end = 0;
  for (const Span& span : spans) end = std::max(end, span.end_us);
  return end;
}

double ExposedPart::us() const noexcept {
  double sum = 0;
  for (const Span& part : parts) sum += part.us();
  return sum;
}

std::vector<ExposedPart> exposed_parts(const Timeline& timeline) {
  const std::vector<Span> computed = computing(timeline);
  std::vector<ExposedPart> all;
  for (const Span& span : timeline.spans) {
    if (span.kind != NodeKind::collective) continue;
    ExposedPart exposed{.node = span.node, .parts = {}};
    double from = span.begin_us;
    for (const Span& busy : computed) {
      if (busy.end_us <= from) continue;
      if (busy.begin_us >= span.end_us) break;
      if (busy.begin_us > from) exposed.parts.push_back({span.node, span.kind, from, busy.begin_us});
      from = busy.end_us;
    }
    if (from < span.end_us) exposed.parts.push_back({span.node, span.kind, from, span.end_us});
    all.push_back(std::move(exposed));
  }
  return all;
}

Summary summarize(const Graph& graph, const Timeline& timeline) {
  Summary summary{.step_us = timeline.step_us()};
  for (const Span& busy : computing(timeline)) summary.compute_us += busy.us();
  for (const ExposedPart& exposed : exposed_parts(timeline)) summary.exposed_us += exposed.us();
  for (const Span& span : timeline.spans) {
    if (span.kind == NodeKind::collective) {
      summary.communication_us += span.us();
      summary.communication_end_us = std::max(summary.communication_end_us, span.end_us);
    } else if (graph.node(span.node).phase == Phase::backward) {
      summary.backward_end_us = std::max(summary.backward_end_us, span.end_us);
    }
  }
  return summary;
}

double Summary::overlap() const noexcept {
  return communication_us > 0 ? 1 - exposed_us / communication_us : 1;
}

double Summary::seed_efficiency() const noexcept {
  const double sum = communication_us + compute_us;
  return sum > 0 ? 1 - std::max(communication_us, compute_us) / sum : 0;
}

std::string Summary::text() const {
  return fmt::format(
      "step {:.1f} us, compute {:.1f} us, communication {:.1f} us, exposed {:.1f} us, overlap {:.1f} %, "
      "seed_efficiency {:.3f} (never above 0.5)",
      step_us, compute_us, communication_us, exposed_us, 100 * overlap(), seed_efficiency());
}

}  // namespace cohort::graph
