// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/graph_json.h>

#include <cohort/engine/system/variables.h>
#include <cohort/graph/dependencies.h>
#include <cohort/graph/json_words.h>
#include <cohort/graph/verify.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace cohort::graph {
namespace {

using json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& whom, const std::string& cause, const std::string& advice) {
  throw GraphError(ErrorCode::dist_graph_build, whom, cause, advice);
}

constexpr const char* kSeePage = "docs/use/graph.md has the members and an example";

void check_members(const json& object, const std::string& whom,
                   std::initializer_list<std::string_view> known) {
  if (!object.is_object()) refuse(whom, "an object {...} is expected", kSeePage);
  const std::vector<std::string_view> names(known);
  for (const auto& item : object.items()) {
    if (std::ranges::find(names, item.key()) != names.end()) continue;
    const auto nearest = environment::nearest_name(item.key(), names);
    refuse(whom, fmt::format("member {} is unknown", item.key()),
           nearest ? fmt::format("{} may be meant", *nearest) : kSeePage);
  }
}

template <class T>
T member(const json& object, const std::string& whom, const char* key, T otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  try {
    return found->template get<T>();
  } catch (const json::exception&) {
    refuse(whom, fmt::format("member {} is {}", key, found->dump()), kSeePage);
  }
}

std::string name_of(const json& object, const std::string& list, std::size_t index) {
  const std::string whom = fmt::format("{}[{}]", list, index);
  if (!object.is_object()) refuse(whom, "an object {...} is expected", kSeePage);
  return member<std::string>(object, whom, "name", "");
}

template <class Enumeration, class Parse>
Enumeration word(const json& object, const std::string& whom, const char* key, const std::string& otherwise,
                 const Parse& parse) {
  const std::string name = member<std::string>(object, whom, key, otherwise);
  const std::optional<Enumeration> value = parse(name);
  if (!value) refuse(whom, fmt::format("member {} is {}, which is none", key, name), kSeePage);
  return *value;
}

void read_tensor(Graph& graph, const json& object, std::size_t index) {
  Tensor tensor;
  tensor.name = name_of(object, "tensors", index);
  const std::string whom = "tensor " + tensor.name;
  check_members(object, whom, {"name", "type", "shape", "role", "gradient_of"});
  tensor.type = word<DataType>(object, whom, "type", "float32", cohort::parse_data_type);
  tensor.shape = member<std::vector<std::int64_t>>(object, whom, "shape", {});
  tensor.role = word<TensorRole>(object, whom, "role", "activation", parse_tensor_role);
  graph.add_tensor(std::move(tensor));
}

/// Once all tensors are there.
void read_mark(Graph& graph, const json& object) {
  const std::string whom = "tensor " + object["name"].get<std::string>();
  const std::string parameter = member<std::string>(object, whom, "gradient_of", "");
  if (parameter.empty()) return;
  const auto found = graph.find_tensor(parameter);
  if (!found) refuse(whom, fmt::format("it is the gradient of {}, which is not there", parameter), kSeePage);
  graph.tensor(*graph.find_tensor(object["name"].get<std::string>())).gradient_of = *found;
}

std::vector<TensorId> tensors_of(const Graph& graph, const json& object, const std::string& whom,
                                 const char* key) {
  std::vector<TensorId> ids;
  for (const std::string& name : member<std::vector<std::string>>(object, whom, key, {})) {
    const auto found = graph.find_tensor(name);
    if (!found)
      refuse(whom, fmt::format("{} name tensor {}, which is not there", key, name), "add it to `tensors`");
    ids.push_back(*found);
  }
  return ids;
}

Attribute attribute_of(const json& value, const std::string& whom, const std::string& key) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  const auto is_integer = [](const json& item) { return item.is_number_integer(); };
  if (value.is_array() && std::ranges::all_of(value, is_integer))
    return value.get<std::vector<std::int64_t>>();
  refuse(whom, fmt::format("attribute {} is {}", key, value.dump()),
         "attributes are booleans, numbers, strings and lists of integers");
}

void read_node(Graph& graph, const json& object, std::size_t index) {
  Node node;
  node.name = name_of(object, "nodes", index);
  const std::string whom = "node " + node.name;
  check_members(object, whom,
                {"name", "op", "kind", "phase", "inputs", "outputs", "after", "duration_us", "attributes"});
  node.op = member<std::string>(object, whom, "op", "");
  if (node.op.empty()) refuse(whom, "it has no op", kSeePage);
  node.kind = word<NodeKind>(object, whom, "kind", "compute", parse_node_kind);
  node.phase = word<Phase>(object, whom, "phase", "forward", parse_phase);
  node.inputs = tensors_of(graph, object, whom, "inputs");
  node.outputs = tensors_of(graph, object, whom, "outputs");
  node.duration_us = member<double>(object, whom, "duration_us", 0);
  if (const auto found = object.find("attributes"); found != object.end()) {
    if (!found->is_object()) refuse(whom, "attributes are an object {...}", kSeePage);
    for (const auto& item : found->items())
      node.attributes.emplace(item.key(), attribute_of(item.value(), whom, item.key()));
  }
  graph.add_node(std::move(node));
}

void read_order_dependencies(Graph& graph, const json& object) {
  const std::string name = object["name"].get<std::string>();
  for (const std::string& other : member<std::vector<std::string>>(object, "node " + name, "after", {})) {
    const auto found = graph.find_node(other);
    if (!found) refuse("node " + name, fmt::format("it comes after {}, which is not there", other), kSeePage);
    graph.node(*graph.find_node(name)).after.push_back(*found);
  }
}

const json& list_of(const json& object, const std::string& file, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array())
    refuse(file, fmt::format("member {} is missing, or no list", key), kSeePage);
  return *found;
}

template <class Ids, class NameOf>
json names(const Ids& ids, const NameOf& name) {
  json list = json::array();
  for (const auto id : ids) list.push_back(name(id));
  return list;
}

json json_of(const Graph& graph, const Tensor& tensor) {
  json object{{"name", tensor.name}, {"type", cohort::to_string(tensor.type)}, {"shape", tensor.shape}};
  if (tensor.role != TensorRole::activation) object["role"] = to_string(tensor.role);
  if (tensor.gradient_of) object["gradient_of"] = graph.tensor(*tensor.gradient_of).name;
  return object;
}

json json_of(const Graph& graph, const Node& node) {
  const auto tensor = [&](TensorId id) { return graph.tensor(id).name; };
  json object{{"name", node.name}, {"op", node.op}};
  if (node.kind != NodeKind::compute) object["kind"] = to_string(node.kind);
  object["phase"] = to_string(node.phase);
  object["inputs"] = names(node.inputs, tensor);
  object["outputs"] = names(node.outputs, tensor);
  if (!node.after.empty())
    object["after"] = names(node.after, [&](NodeId id) { return graph.node(id).name; });
  if (node.duration_us != 0) object["duration_us"] = node.duration_us;
  for (const auto& [key, value] : node.attributes)
    std::visit([&object, &name = key](const auto& held) { object["attributes"][name] = held; }, value);
  return object;
}

}  // namespace

Graph parse_graph(const std::string& text, const std::string& name) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::exception& error) {
    refuse(name, fmt::format("it is no JSON: {}", words_of_json(error)), kSeePage);
  }
  check_members(object, name, {"name", "tensors", "nodes"});
  Graph graph(member<std::string>(object, name, "name", "graph"));
  const json& tensors = list_of(object, name, "tensors");
  for (std::size_t i = 0; i < tensors.size(); ++i) read_tensor(graph, tensors[i], i);
  for (const json& tensor : tensors) read_mark(graph, tensor);
  const json& nodes = list_of(object, name, "nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i) read_node(graph, nodes[i], i);
  for (const json& node : nodes) read_order_dependencies(graph, node);
  graph = sorted(std::move(graph));
  verify(graph);
  return graph;
}

Graph read_graph(const std::string& path) {
  std::ifstream file(path);
  std::error_code unknown;
  if (!file || std::filesystem::is_directory(path, unknown))
    refuse(path, "it cannot be read", "give the path of a graph file");
  std::stringstream text;
  text << file.rdbuf();
  return parse_graph(text.str(), path);
}

std::string to_json(const Graph& graph) {
  std::string text = fmt::format("{{\n  \"name\": {},\n  \"tensors\": [", json(graph.name()).dump());
  const char* separator = "\n    ";
  for (const TensorId id : graph.tensors()) {
    text += separator + json_of(graph, graph.tensor(id)).dump();
    separator = ",\n    ";
  }
  text += "\n  ],\n  \"nodes\": [";
  separator = "\n    ";
  for (const NodeId id : graph.order()) {
    text += separator + json_of(graph, graph.node(id)).dump();
    separator = ",\n    ";
  }
  return text + "\n  ]\n}\n";
}

}  // namespace cohort::graph
