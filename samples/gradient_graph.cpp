// SPDX-License-Identifier: Apache-2.0
// A step of training as a graph: reductions are inserted where they hide best, and 4 ranks run it.
//   build/release/bin/gradient_graph
#include <cohort/cohort.h>
#include <cohort/graph/executor/planned_training.h>
#include <cohort/graph/timeline/trace.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <fstream>
#include <stdexcept>
#include <string>

namespace {

using namespace cohort::graph;

constexpr cohort::Rank kRanks = 4;

struct Settings {
  int layers = 12;
  std::int64_t elements = 65536;  // of each layer's parameter
  int repetitions = 4;            // of the arithmetic of a layer
  int steps = 60;
  std::string trace;  // a file, for Perfetto
};

/// Layers that follow each other, backward in the opposite order, and an update of each parameter.
Graph network(const Settings& settings) {
  Graph graph("layers");
  const std::vector<std::int64_t> shape = {settings.elements};
  TensorId data = graph.add_tensor({.name = "input", .shape = shape, .role = TensorRole::input});
  std::vector<TensorId> weights;
  for (int i = 0; i < settings.layers; ++i) {
    weights.push_back(
        graph.add_tensor({.name = fmt::format("w{}", i), .shape = shape, .role = TensorRole::parameter}));
    const TensorId out = graph.add_tensor({.name = fmt::format("out{}", i), .shape = shape});
    graph.add_node({.name = fmt::format("layer{}", i),
                    .op = "layer",
                    .inputs = {data, weights.back()},
                    .outputs = {out}});
    data = out;
  }
  TensorId back = graph.add_tensor({.name = "loss", .shape = shape, .role = TensorRole::loss});
  graph.add_node({.name = "loss", .op = "loss", .inputs = {data}, .outputs = {back}});
  for (std::size_t i = weights.size(); i-- > 0;) {
    const TensorId gradient = graph.add_tensor({.name = fmt::format("g{}", i),
                                                .shape = shape,
                                                .role = TensorRole::gradient,
                                                .gradient_of = weights[i]});
    graph.add_node({.name = fmt::format("backward{}", i),
                    .op = "layer_grad",
                    .phase = Phase::backward,
                    .inputs = {back, weights[i]},
                    .outputs = {gradient}});
    graph.add_node({.name = fmt::format("update{}", i),
                    .op = "sgd",
                    .phase = Phase::update,
                    .inputs = {weights[i], gradient},
                    .attributes = {{"updates", fmt::format("w{}", i)}}});
  }
  return graph;
}

/// out[i] = f(in[i]), as long as the settings say.
void transform(std::span<const float> in, std::span<float> out, int repetitions) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    float value = in[i];
    for (int repeat = 0; repeat < repetitions; ++repeat) value = std::sqrt(value * value + 1.0F);
    out[i] = value;
  }
}

Kernels kernels_for(const Settings& settings) {
  Kernels kernels;
  const int repetitions = settings.repetitions;
  const auto layer = [repetitions](const NodeCall& call) {
    transform(call.input<float>(0), call.output<float>(0), repetitions);
  };
  for (const char* op : {"layer", "loss", "layer_grad"}) kernels.set(op, layer);
  kernels.set("sgd", [](const NodeCall& call) {
    const std::span<float> weights = call.input<float>(0);
    const std::span<const float> gradient = call.input<float>(1);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.01F * gradient[i];
  });
  return kernels;
}

cohort::Task<> train(cohort::Communicator& comm, Settings settings) {
  PlannedTraining training(comm, network(settings), kernels_for(settings));
  co_await training.prepare();
  std::string trace;
  for (int step = 0; step < settings.steps; ++step) {
    const Timeline timeline = co_await training.run_step();
    trace = to_chrome_trace(training.last_graph(), std::span(&timeline, 1), comm.rank());
    if (comm.rank() == 0 && step % 20 == 19)
      fmt::print("step {}: {}\n", step, training.last_summary().text());
  }
  if (comm.rank() != 0) co_return;
  fmt::print("{}", training.explain());
  if (settings.trace.empty()) co_return;
  std::ofstream file(settings.trace);
  if (!(file << trace).flush())
    throw std::runtime_error(settings.trace + ": the trace cannot be written there");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plans, runs and explains the reductions of a step of training");
  Settings settings;
  app.add_option("--layers", settings.layers, "Layers")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--elements", settings.elements, "Elements of each parameter")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--repetitions", settings.repetitions, "Of the arithmetic of a layer")
      ->capture_default_str();
  app.add_option("--steps", settings.steps, "Steps")->capture_default_str();
  app.add_option("--trace", settings.trace, "Write the last step of rank 0, for Perfetto")->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  return cohort::run_threads(kRanks,
                             [settings](cohort::Communicator& comm) { return train(comm, settings); });
}
