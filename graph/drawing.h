// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <string>

namespace cohort::graph {

/// A line for each node, in order: number, name, op, what it reads and makes, and how long it takes.
[[nodiscard]] std::string to_text(const Graph& graph);

/// An SVG: a row for each depth of the graph, a box for each node, an arrow for each dependency. Colours tell
/// forward, backward, update and collectives apart. Meant for graphs of some hundred nodes.
[[nodiscard]] std::string to_svg(const Graph& graph);

/// For text between tags of XML.
[[nodiscard]] std::string xml_escaped(const std::string& text);

}  // namespace cohort::graph
