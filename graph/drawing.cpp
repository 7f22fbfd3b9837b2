// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/drawing.h>

#include <cohort/graph/dependencies.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace cohort::graph {
namespace {

constexpr double kBoxWidth = 150;
constexpr double kBoxHeight = 34;
constexpr double kColumn = 170;
constexpr double kRow = 70;
constexpr double kMargin = 20;
constexpr std::size_t kMostLetters = 22;

std::string tensor_text(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  return fmt::format("{}:{}[{}]", tensor.name, cohort::to_string(tensor.type), fmt::join(tensor.shape, "x"));
}

std::string list_text(const Graph& graph, const std::vector<TensorId>& ids) {
  std::vector<std::string> names;
  for (const TensorId id : ids) names.push_back(tensor_text(graph, id));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string value_text(const Attribute& value) {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*list, ","));
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return std::get<std::string>(value);
}

std::string node_text(const Graph& graph, std::size_t position, const Node& node) {
  std::string text = fmt::format("{:>4} {:<9} {} = {}({})", position, to_string(node.phase),
                                 list_text(graph, node.outputs), node.op, list_text(graph, node.inputs));
  if (node.duration_us > 0) text += fmt::format(" {:.1f} us", node.duration_us);
  for (const auto& [key, value] : node.attributes) text += fmt::format(" {}={}", key, value_text(value));
  text += fmt::format("  # {}", node.name);
  for (const NodeId other : node.after) text += fmt::format(", after {}", graph.node(other).name);
  return text + "\n";
}

struct Place {
  std::size_t row = 0;
  std::size_t column = 0;

  [[nodiscard]] double x() const { return kMargin + static_cast<double>(column) * kColumn; }
  [[nodiscard]] double y() const { return kMargin + static_cast<double>(row) * kRow; }
};

/// A node's row is one below the lowest of those that it needs.
std::vector<Place> places_of(const Graph& graph, const Dependencies& dependencies) {
  std::vector<Place> places(graph.node_bound());
  std::vector<std::size_t> used;
  for (const NodeId id : topological_order(graph, dependencies)) {
    Place& place = places[index_of(id)];
    for (const NodeId before : dependencies.predecessors(id))
      place.row = std::max(place.row, places[index_of(before)].row + 1);
    if (used.size() <= place.row) used.resize(place.row + 1, 0);
    place.column = used[place.row]++;
  }
  return places;
}

std::string_view colour_of(const Node& node) {
  if (node.kind == NodeKind::collective) return "#f4b183";
  switch (node.phase) {
    case Phase::forward: return "#bdd7ee";
    case Phase::backward: return "#c5e0b4";
    case Phase::update: return "#e2d1f0";
  }
  return "#ffffff";
}

std::string shortened(const std::string& name) {
  if (name.size() <= kMostLetters) return name;
  return fmt::format("{}..", std::string_view(name).substr(0, kMostLetters - 2));
}

std::string box(const Graph& graph, const Node& node, const Place& place) {
  const double middle = place.x() + kBoxWidth / 2;
  std::string text = fmt::format(
      "<g><title>{}</title><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"5\" "
      "fill=\"{}\" stroke=\"#404040\"/>\n",
      xml_escaped(node.name + ": " + list_text(graph, node.outputs)), place.x(), place.y(), kBoxWidth,
      kBoxHeight, colour_of(node));
  text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", middle,
                      place.y() + 14, xml_escaped(shortened(node.name)));
  text +=
      fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#404040\">{}</text></g>\n",
                  middle, place.y() + 28, xml_escaped(shortened(node.op)));
  return text;
}

std::string arrow(const Place& from, const Place& to) {
  return fmt::format(
      "<path d=\"M{:.0f},{:.0f} L{:.0f},{:.0f}\" stroke=\"#808080\" fill=\"none\" "
      "marker-end=\"url(#tip)\"/>\n",
      from.x() + kBoxWidth / 2, from.y() + kBoxHeight, to.x() + kBoxWidth / 2, to.y());
}

}  // namespace

std::string xml_escaped(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += letter;
    }
  }
  return escaped;
}

std::string to_text(const Graph& graph) {
  std::string text = fmt::format("graph {}: {} nodes, {} tensors\n", graph.name(), graph.order().size(),
                                 graph.tensor_count());
  for (std::size_t position = 0; position < graph.order().size(); ++position)
    text += node_text(graph, position, graph.node(graph.order()[position]));
  return text;
}

std::string to_svg(const Graph& graph) {
  const Dependencies dependencies(graph);
  const std::vector<Place> places = places_of(graph, dependencies);
  double width = kMargin;
  double height = kMargin;
  std::string arrows;
  std::string boxes;
  for (const NodeId id : graph.order()) {
    const Place& place = places[index_of(id)];
    width = std::max(width, place.x() + kColumn);
    height = std::max(height, place.y() + kRow);
    for (const NodeId before : dependencies.predecessors(id))
      arrows += arrow(places[index_of(before)], place);
    boxes += box(graph, graph.node(id), place);
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
             "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
             "<defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" "
             "orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"#808080\"/></marker></defs>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
             width, height) +
         arrows + boxes + "</svg>\n";
}

}  // namespace cohort::graph
