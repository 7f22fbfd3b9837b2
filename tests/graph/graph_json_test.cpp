// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/graph_json.h>

#include <cohort/graph/drawing.h>
#include <cohort/tests/graph/networks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace cohort::graph::graph_json_test {
namespace {

using ::testing::HasSubstr;

std::string complaint(const std::string& text) {
  try {
    (void)parse_graph(text, "g.json");
  } catch (const GraphError& error) {
    return error.message().empty() ? "no words" : std::string(error.message());
  }
  return "";
}

TEST(GraphJson, what_is_written_is_read_again) {
  Graph graph = test::chain_of({{4, 1.5, 2}, {8, 3, 4}});
  graph.node(*graph.find_node("layer0")).attributes = {{"truth", true},
                                                       {"whole", std::int64_t{3}},
                                                       {"part", 0.5},
                                                       {"word", std::string("a\"b")},
                                                       {"list", std::vector<std::int64_t>{1, 2}}};
  graph.node(*graph.find_node("update1")).after = {*graph.find_node("back0")};
  const std::string text = to_json(graph);
  const Graph again = parse_graph(text, "again");
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.node(*again.find_node("layer0")).attribute_or<std::string>("word", ""), "a\"b");
  EXPECT_EQ(again.tensor(*again.find_tensor("g1")).gradient_of, again.find_tensor("w1"));
}

TEST(GraphJson, nodes_may_stand_in_any_order) {
  const std::string text = R"({"tensors": [{"name": "t"}], "nodes": [
      {"name": "reader", "op": "x", "inputs": ["t"]},
      {"name": "writer", "op": "x", "outputs": ["t"]}]})";
  const Graph graph = parse_graph(text, "g.json");
  EXPECT_EQ(graph.node(graph.order()[0]).name, "writer");
}

TEST(GraphJson, refuses_what_it_does_not_know) {
  EXPECT_THAT(complaint("{"), HasSubstr("g.json: it is no JSON"));
  EXPECT_THAT(complaint("{}"), HasSubstr("member tensors is missing"));
  EXPECT_THAT(complaint(R"({"tensors": [{"name": "t", "shap": [1]}], "nodes": []})"),
              HasSubstr("tensor t: member shap is unknown; shape may be meant"));
  EXPECT_THAT(complaint(R"({"tensors": [{"name": "t", "type": "float31"}], "nodes": []})"),
              HasSubstr("tensor t: member type is float31, which is none"));
  EXPECT_THAT(complaint(R"({"tensors": [], "nodes": [{"name": "n", "op": "x", "inputs": ["t"]}]})"),
              HasSubstr("node n: inputs name tensor t, which is not there"));
  EXPECT_THAT(complaint(R"({"tensors": [], "nodes": [{"name": "n"}]})"), HasSubstr("node n: it has no op"));
  EXPECT_THAT(complaint(R"({"tensors": [{"name": 3}], "nodes": []})"),
              HasSubstr("tensors[0]: member name is 3"));
  EXPECT_THAT(complaint(R"({"tensors": [], "nodes": [{"name": "n", "op": "x", "attributes": {"a": {}}}]})"),
              HasSubstr("node n: attribute a is {}"));
}

TEST(GraphJson, a_file_that_is_not_there_is_named) {
  EXPECT_THROW((void)read_graph("no/such/file.json"), GraphError);
}

TEST(Drawing, text_has_a_line_for_each_node) {
  const Graph graph = test::chain_of_equal(2, 4, 1);
  const std::string text = to_text(graph);
  EXPECT_EQ(std::ranges::count(text, '\n'), static_cast<std::ptrdiff_t>(graph.order().size()) + 1);
  EXPECT_THAT(
      text, HasSubstr("backward  g1:float32[4], d1:float32[8] = layer_grad(loss:float32[], w1:float32[4])"));
}

TEST(Drawing, svg_has_a_box_for_each_node_and_escapes_names) {
  Graph graph = test::chain_of_equal(2, 4, 1);
  graph.add_node({.name = "a<b&c", .op = "x"});
  const std::string svg = to_svg(graph);
  std::size_t boxes = 0;
  for (std::size_t at = svg.find("<g>"); at != std::string::npos; at = svg.find("<g>", at + 1)) ++boxes;
  EXPECT_EQ(boxes, graph.order().size());
  EXPECT_THAT(svg, HasSubstr("a&lt;b&amp;c"));
}

}  // namespace
}  // namespace cohort::graph::graph_json_test
