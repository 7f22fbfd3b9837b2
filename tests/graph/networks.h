// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cohort::test {

/// One layer of a network: so many elements of one parameter, and how long it takes both ways.
struct Layer {
  std::int64_t elements = 1;
  double forward_us = 0;
  double backward_us = 0;
};

/// A step of training layers that follow each other: forward, loss, backward with a gradient for each
/// parameter, and an update of each. The last layer's gradient is ready first.
inline graph::Graph chain_of(const std::vector<Layer>& layers) {
  using namespace graph;
  Graph graph("chain");
  TensorId data = graph.add_tensor({.name = "x", .shape = {8}, .role = TensorRole::input});
  std::vector<TensorId> weights;
  std::vector<TensorId> gradients;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    weights.push_back(graph.add_tensor(
        {.name = fmt::format("w{}", i), .shape = {layers[i].elements}, .role = TensorRole::parameter}));
    const TensorId out = graph.add_tensor({.name = fmt::format("h{}", i), .shape = {8}});
    graph.add_node({.name = fmt::format("layer{}", i),
                    .op = "layer",
                    .inputs = {data, weights[i]},
                    .outputs = {out},
                    .duration_us = layers[i].forward_us});
    data = out;
  }
  const TensorId loss = graph.add_tensor({.name = "loss", .role = TensorRole::loss});
  graph.add_node({.name = "loss", .op = "loss", .inputs = {data}, .outputs = {loss}});
  gradients.resize(layers.size());
  TensorId back = loss;
  for (std::size_t i = layers.size(); i-- > 0;) {
    gradients[i] = graph.add_tensor({.name = fmt::format("g{}", i),
                                     .shape = {layers[i].elements},
                                     .role = TensorRole::gradient,
                                     .gradient_of = weights[i]});
    const TensorId out = graph.add_tensor({.name = fmt::format("d{}", i), .shape = {8}});
    graph.add_node({.name = fmt::format("back{}", i),
                    .op = "layer_grad",
                    .phase = Phase::backward,
                    .inputs = {back, weights[i]},
                    .outputs = {gradients[i], out},
                    .duration_us = layers[i].backward_us});
    back = out;
  }
  for (std::size_t i = 0; i < layers.size(); ++i)
    graph.add_node({.name = fmt::format("update{}", i),
                    .op = "sgd",
                    .phase = Phase::update,
                    .inputs = {weights[i], gradients[i]},
                    .attributes = {{"updates", fmt::format("w{}", i)}}});
  return graph;
}

/// Layers of the same size, with so many microseconds each way.
inline graph::Graph chain_of_equal(std::size_t layers, std::int64_t elements, double us) {
  return chain_of(std::vector<Layer>(layers, {elements, us, us}));
}

}  // namespace cohort::test
