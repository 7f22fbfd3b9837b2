// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/timeline/trace.h>

#include <fmt/format.h>

#include <string_view>

namespace cohort::graph {
namespace {

constexpr std::string_view kBegin = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
constexpr std::string_view kEnd = "\n]}\n";

enum Track : int { kCompute = 0, kCommunication = 1, kExposed = 2 };

std::string json_text(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') escaped += '\\';
    if (static_cast<unsigned char>(letter) >= 0x20) escaped += letter;
  }
  return escaped;
}

std::string name_of_track(std::uint32_t rank, Track track, std::string_view name) {
  return fmt::format(
      "{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": \"thread_name\", \"args\": {{\"name\": "
      "\"{}\"}}}}",
      rank, static_cast<int>(track), name);
}

std::string event(const Graph& graph, const Span& span, double offset_us, std::uint32_t rank, Track track) {
  const Node& node = graph.node(span.node);
  std::string arguments = fmt::format("\"op\": \"{}\"", json_text(node.op));
  if (node.kind == NodeKind::collective)
    arguments += fmt::format(", \"bucket\": {}, \"bytes\": {}", node.attribute_or<std::int64_t>("bucket", 0),
                             node.attribute_or<std::int64_t>("bytes", 0));
  return fmt::format(
      ",\n{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"name\": \"{}\", \"cat\": \"{}\", \"ts\": {:.3f}, "
      "\"dur\": {:.3f}, "
      "\"args\": {{{}}}}}",
      rank, static_cast<int>(track), json_text(node.name), to_string(node.phase), offset_us + span.begin_us,
      span.us(), arguments);
}

}  // namespace

std::string to_chrome_trace(const Graph& graph, std::span<const Timeline> steps, std::uint32_t rank) {
  std::string text(kBegin);
  text += fmt::format(
      "{{\"ph\": \"M\", \"pid\": {0}, \"name\": \"process_name\", \"args\": {{\"name\": \"rank {0}\"}}}}",
      rank);
  text += ",\n" + name_of_track(rank, kCompute, "compute");
  text += ",\n" + name_of_track(rank, kCommunication, "communication");
  text += ",\n" + name_of_track(rank, kExposed, "exposed");
  double offset = 0;
  for (const Timeline& step : steps) {
    for (const Span& span : step.spans)
      text += event(graph, span, offset, rank, span.kind == NodeKind::compute ? kCompute : kCommunication);
    for (const ExposedPart& exposed : exposed_parts(step))
      for (const Span& part : exposed.parts) text += event(graph, part, offset, rank, kExposed);
    offset += step.step_us();
  }
  return text + std::string(kEnd);
}

std::string join_traces(std::span<const std::string> traces) {
  std::string text(kBegin);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const std::string_view trace = traces[i];
    if (i > 0) text += ",\n";
    text += trace.substr(kBegin.size(), trace.size() - kBegin.size() - kEnd.size());
  }
  return text + std::string(kEnd);
}

}  // namespace cohort::graph
