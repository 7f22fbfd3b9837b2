// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/graph_command.h>

#include <cohort/engine/system/environment.h>
#include <cohort/graph/drawing.h>
#include <cohort/graph/graph_json.h>
#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/graph/passes/memory.h>
#include <cohort/graph/planner/explain.h>
#include <cohort/graph/planner/rules.h>
#include <cohort/graph/timeline/predict.h>
#include <cohort/graph/timeline/trace.h>
#include <cohort/tools/command_line.h>
#include <cohort/tools/graph/simulated_costs.h>
#include <cohort/tools/output_file.h>
#include <cohort/tools/sim/library_links.h>
#include <cohort/tools/sim/topology_file.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace cohort::graph {
namespace {

constexpr Rank kMostRanks = Rank{1} << 16;
constexpr double kMilliseconds = 1e3;

constexpr const char* kGraphFooter = R"(
Examples:
  cohort graph samples/graphs/transformer.json
  cohort graph samples/graphs/transformer.json --insert smart_overlap --svg graph.svg
  cohort graph samples/graphs/transformer.json --plan --ranks 16
  cohort graph FILE --simulate --topology samples/topologies/cluster.json --ranks 64

FILE holds tensors and nodes as docs/use/graph.md says. Without an option the graph is printed as text. Costs
of collectives are simulated as the library would run them with --topology, one rank a host unless given;
durations of nodes are those of the file.

Status: 0; 1 for a graph or topology that makes no sense; 2 for wrong options.)";

struct GraphArguments {
  std::string file;
  std::string svg;
  std::string topology;
  std::string trace;
  std::string insert;
  std::string form = "flat";
  std::string bucket_size;
  std::string min_tensor_size;
  std::string split_size;
  std::size_t max_group_size = 0;
  Rank ranks = 4;
  bool is_json = false;
  bool is_plan = false;
  bool is_simulation = false;
  bool is_memory = false;
  bool is_detailed = false;
};

std::uint64_t bytes_of(const std::string& text) {
  return text.empty() ? 0 : environment::parse_bytes("SIZE", text);
}

ReduceForm form_of(const std::string& name) {
  if (name == "shares") return ReduceForm::shares;
  return name == "leader" ? ReduceForm::leader : ReduceForm::flat;
}

InsertOptions options_of(const GraphArguments& arguments) {
  InsertOptions options;
  options.limits = {.bucket_bytes = bytes_of(arguments.bucket_size),
                    .min_tensor_bytes = bytes_of(arguments.min_tensor_size),
                    .max_group_size = arguments.max_group_size};
  options.split_bytes = bytes_of(arguments.split_size);
  options.form = form_of(arguments.form);
  if (!arguments.insert.empty()) options.strategy = *parse_strategy(arguments.insert);
  return options;
}

/// Of all gradients together: no bucket is larger.
std::uint64_t gradient_bytes(const Graph& graph) {
  const Dependencies dependencies(graph);
  std::uint64_t bytes = 0;
  for (const Gradient& gradient : find_gradients(graph, dependencies))
    bytes += graph.tensor(gradient.parts.front()).bytes();
  return bytes;
}

SimulatedCosts costs_for(const Graph& graph, const GraphArguments& arguments) {
  const sim::Topology topology =
      arguments.topology.empty() ? sim::library_topology() : sim::read_topology(arguments.topology);
  return {topology, arguments.ranks, gradient_bytes(graph)};
}

Insertion inserted(const Graph& graph, InsertOptions options, SimulatedCosts& costs) {
  const bool is_by_host = options.strategy == Strategy::hierarchical && options.form == ReduceForm::flat;
  if (is_by_host) options.form = ReduceForm::shares;
  options.cost = costs.of(options.form);
  return insert_all_reduce(graph, options);
}

Timeline predicted(const Insertion& insertion, SimulatedCosts& costs) {
  return predict_step(insertion.graph, [&costs](const Node& node) { return &costs.of(node); });
}

void write(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.close();
}

struct Row {
  const char* name;
  Strategy strategy;
  ReduceForm form;
};

constexpr std::array<Row, 6> kRows = {{
    {"synchronous", Strategy::synchronous, ReduceForm::flat},
    {"compute_communication_overlap", Strategy::compute_communication_overlap, ReduceForm::flat},
    {"hierarchical (shares)", Strategy::hierarchical, ReduceForm::shares},
    {"hierarchical (leader)", Strategy::hierarchical, ReduceForm::leader},
    {"smart_overlap", Strategy::smart_overlap, ReduceForm::flat},
    {"smart_overlap (shares)", Strategy::smart_overlap, ReduceForm::shares},
}};

void print_simulation(const Graph& graph, const GraphArguments& arguments) {
  SimulatedCosts costs = costs_for(graph, arguments);
  fmt::print("graph {}: {} ranks on {} hosts\n", graph.name(), arguments.ranks, costs.hosts());
  fmt::print("{:<30} {:>7} {:>12} {:>13} {:>12} {:>9} {:>7}\n", "strategy", "buckets", "compute (ms)",
             "communic. (ms)", "exposed (ms)", "step (ms)", "overlap");
  std::vector<std::string> traces;
  for (const Row& row : kRows) {
    if (row.form != ReduceForm::flat && costs.hosts() < 2) continue;
    InsertOptions options = options_of(arguments);
    options.strategy = row.strategy;
    options.form = row.form;
    const Insertion insertion = inserted(graph, options, costs);
    const Timeline timeline = predicted(insertion, costs);
    const Summary summary = summarize(insertion.graph, timeline);
    fmt::print("{:<30} {:>7} {:>12.3f} {:>13.3f} {:>12.3f} {:>9.3f} {:>6.1f}%\n", row.name,
               insertion.plan.buckets.size(), summary.compute_us / kMilliseconds,
               summary.communication_us / kMilliseconds, summary.exposed_us / kMilliseconds,
               summary.step_us / kMilliseconds, 100 * summary.overlap());
    traces.push_back(
        to_chrome_trace(insertion.graph, std::span(&timeline, 1), static_cast<std::uint32_t>(traces.size())));
  }
  for (const std::string& note : costs.notes()) fmt::print("{}\n", note);
  if (!arguments.trace.empty()) write(arguments.trace, join_traces(traces));
}

void print_plan(const Graph& graph, const GraphArguments& arguments) {
  SimulatedCosts costs = costs_for(graph, arguments);
  const Insertion insertion = inserted(graph, options_of(arguments), costs);
  const Cost cost = costs.of(form_of(arguments.form));
  if (arguments.is_detailed)
    for (const std::string& decision : insertion.decisions) fmt::print("{}\n", decision);
  fmt::print("{}", explain(insertion.plan, cost, rules_of_others(insertion.plan.items, cost)));
}

void print_memory(const Graph& graph) {
  const MemoryPlan plan = plan_memory(graph);
  fmt::print("{} bytes: {} of activations, {} of gradients, {} given; without reuse {}\n", plan.peak_bytes(),
             plan.arena_bytes, plan.gradient_bytes, plan.given_bytes, plan.bytes_without_reuse);
  if (plan.peak_node) fmt::print("the most at node {}\n", graph.node(*plan.peak_node).name);
}

int run(const GraphArguments& arguments) {
  Graph graph = read_graph(arguments.file);
  if (arguments.is_simulation) print_simulation(graph, arguments);
  if (arguments.is_plan) print_plan(graph, arguments);
  if (!arguments.insert.empty()) {
    SimulatedCosts costs = costs_for(graph, arguments);
    graph = inserted(graph, options_of(arguments), costs).graph;
  }
  if (arguments.is_memory) print_memory(graph);
  if (!arguments.svg.empty()) write(arguments.svg, to_svg(graph));
  if (arguments.is_json)
    fmt::print("{}", to_json(graph));
  else if (arguments.svg.empty() && !arguments.is_simulation && !arguments.is_plan && !arguments.is_memory)
    fmt::print("{}", to_text(graph));
  return 0;
}

void add_size(CLI::App& command, const char* name, std::string& value, const char* purpose) {
  const auto check = [](const std::string& text) { (void)environment::parse_bytes("SIZE", text); };
  command.add_option(name, value, purpose)->check(command_line::accepts("SIZE", check));
}

/// `arguments` outlive parsing.
void add_options(CLI::App& command, GraphArguments& arguments) {
  std::vector<std::string> strategies;
  for (const Row& row : kRows)
    if (row.form == ReduceForm::flat) strategies.emplace_back(to_string(row.strategy));
  strategies.emplace_back(to_string(Strategy::hierarchical));
  command.add_option("file", arguments.file, "The graph, as JSON")->required()->type_name("FILE");
  command.add_option("--svg", arguments.svg, "Draw it into that file")->type_name("OUT");
  command.add_flag("--json", arguments.is_json, "As JSON");
  command.add_flag("--plan", arguments.is_plan, "The best buckets, beside the rules of others");
  command.add_flag("--simulate", arguments.is_simulation, "Step and exposed communication by strategy");
  command.add_flag("--memory", arguments.is_memory, "What a rank needs");
  command.add_flag("--detail", arguments.is_detailed, "With --plan: every decision");
  command.add_option("--insert", arguments.insert, "Insert collectives first")
      ->check(CLI::IsMember(strategies));
  command.add_option("--form", arguments.form, "How a bucket is reduced")
      ->check(CLI::IsMember({"flat", "shares", "leader"}))
      ->capture_default_str();
  command.add_option("--topology", arguments.topology, "Hosts and links: as of cohort sim")
      ->type_name("FILE");
  command.add_option("-n,--ranks", arguments.ranks, "How many ranks")
      ->check(CLI::Range(Rank{2}, kMostRanks))
      ->type_name("COUNT")
      ->capture_default_str();
  add_size(command, "--bucket-size", arguments.bucket_size, "Of a bucket, at most");
  add_size(command, "--min-tensor-size", arguments.min_tensor_size, "Of a bucket, at least");
  add_size(command, "--split-size", arguments.split_size, "Cut larger gradients");
  command.add_option("--max-group-size", arguments.max_group_size, "Gradients of a bucket, at most")
      ->type_name("COUNT");
  command
      .add_option("--trace", arguments.trace, "With --simulate: a trace for Perfetto, a rank each strategy")
      ->type_name("OUT");
}

}  // namespace
}  // namespace cohort::graph

void cohort::add_graph_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("graph", "Print, plan and simulate a step of training");
  const auto arguments = std::make_shared<graph::GraphArguments>();
  graph::add_options(*command, *arguments);
  command->footer(graph::kGraphFooter);
  command->callback([arguments, &status] { status = graph::run(*arguments); });
}
