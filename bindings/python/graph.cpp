// SPDX-License-Identifier: Apache-2.0
// Gradient graphs and their planner, for cohort/graph. Types of its functions are in cohort/_cohort.pyi.
#include <cohort/bindings/python/graph.h>

#include <cohort/bindings/python/failure.h>
#include <cohort/graph/drawing.h>
#include <cohort/graph/error.h>
#include <cohort/graph/graph_json.h>
#include <cohort/graph/passes/fuse_kernels.h>
#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/graph/passes/memory.h>
#include <cohort/graph/planner/dynamic_bucket_scheduler.h>
#include <cohort/graph/planner/explain.h>
#include <cohort/graph/planner/planner.h>
#include <cohort/graph/planner/rules.h>
#include <cohort/graph/timeline/timeline.h>
#include <cohort/graph/timeline/trace.h>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cohort::python {
namespace {

using graph::Graph;
using graph::GraphError;
using graph::LinearCost;
using graph::Plan;

/// An option that has to be one of some names.
template <class Known>
auto known(std::optional<Known> found, const char* option, const std::string& given, const char* names) {
  if (!found)
    throw GraphError(graph::ErrorCode::dist_graph_build, fmt::format("option {}", option),
                     fmt::format("'{}' is none", given), fmt::format("give one of {}", names));
  return *found;
}

std::optional<graph::ReduceForm> parse_form(const std::string& name) {
  using enum graph::ReduceForm;
  for (const graph::ReduceForm form : {flat, shares, leader})
    if (graph::to_string(form) == name) return form;
  return std::nullopt;
}

/// As Python has them: (name, ready_us, bytes).
using Given = std::vector<std::tuple<std::string, double, std::uint64_t>>;

std::vector<graph::Item> items_of(Given given) {
  std::vector<graph::Item> items;
  items.reserve(given.size());
  for (auto& [name, ready_us, bytes] : given)
    items.push_back({.name = std::move(name), .ready_us = ready_us, .bytes = bytes});
  graph::sort_by_readiness(items);
  return items;
}

/// The same buckets, with other ready times of the items, in their order, and costs. A bucket is sent behind
/// those before it, so that an item counts as ready once those before it are.
Plan evaluated(Plan plan, const std::vector<double>& ready_us, const LinearCost& cost) {
  if (ready_us.size() != plan.items.size())
    throw py::value_error(
        fmt::format("{} ready times for a plan of {} items", ready_us.size(), plan.items.size()));
  double latest = 0;
  for (std::size_t i = 0; i < ready_us.size(); ++i)
    plan.items[i].ready_us = latest = std::max(latest, ready_us[i]);
  graph::evaluate(plan, graph::Cost::of(cost));
  return plan;
}

std::vector<graph::CostPoint> points_of(const std::vector<std::pair<std::uint64_t, double>>& given) {
  std::vector<graph::CostPoint> points;
  for (const auto& [bytes, us] : given) points.push_back({.bytes = bytes, .us = us});
  return points;
}

/// Spans by the names of nodes.
using Spans = std::vector<std::tuple<std::string, double, double>>;

graph::Timeline timeline_of(const Graph& graph, const Spans& spans) {
  graph::Timeline timeline;
  for (const auto& [name, begin_us, end_us] : spans) {
    const std::optional<graph::NodeId> node = graph.find_node(name);
    if (!node)
      throw GraphError(graph::ErrorCode::dist_graph_build, "node " + name, "the graph has none of that name",
                       "give spans of the graph that ran");
    timeline.spans.push_back(
        {.node = *node, .kind = graph.node(*node).kind, .begin_us = begin_us, .end_us = end_us});
  }
  return timeline;
}

graph::Insertion insert(const Graph& graph, const std::string& strategy, const LinearCost& cost,
                        const graph::Limits& limits, std::uint64_t split_bytes, const std::string& form,
                        const std::map<std::string, double>& ready_us) {
  graph::InsertOptions options;
  options.strategy = known(graph::parse_strategy(strategy), "allreduce_strategy", strategy,
                           "synchronous, compute_communication_overlap, hierarchical, smart_overlap");
  options.form = known(parse_form(form), "form", form, "flat, shares, leader");
  options.cost = graph::Cost::of(cost);
  options.limits = limits;
  options.split_bytes = split_bytes;
  options.ready_us = ready_us;
  return graph::insert_all_reduce(graph, options);
}

std::string explain(const Plan& plan, const LinearCost& cost,
                    const std::optional<std::pair<double, double>>& measured) {
  std::optional<graph::PlanMeasurement> one;
  if (measured) one = graph::PlanMeasurement{.finish_us = measured->first, .exposed_us = measured->second};
  const graph::Cost of_plan = graph::Cost::of(cost);
  return graph::explain(plan, of_plan, graph::rules_of_others(plan.items, of_plan), one);
}

void define_costs(py::module_& module) {
  py::class_<LinearCost>(module, "LinearCost",
                         "Of a collective: start-up + bytes * byte_us, in microseconds.")
      .def(py::init([](double idle_us, double queued_us, double byte_us) {
             return LinearCost{.idle_us = idle_us, .queued_us = queued_us, .byte_us = byte_us};
           }),
           py::arg("idle_us") = 0.0, py::arg("queued_us") = 0.0, py::arg("byte_us") = 0.0)
      .def_readonly("idle_us", &LinearCost::idle_us)
      .def_readonly("queued_us", &LinearCost::queued_us)
      .def_readonly("byte_us", &LinearCost::byte_us);
  py::class_<graph::Limits>(module, "Limits", "Of a bucket; 0 is none.")
      .def(py::init([](std::uint64_t bucket_bytes, std::uint64_t min_tensor_bytes, std::size_t group_size) {
             return graph::Limits{bucket_bytes, min_tensor_bytes, group_size};
           }),
           py::arg("bucket_bytes") = 0, py::arg("min_tensor_bytes") = 0, py::arg("max_group_size") = 0);
  module.def(
      "fit",
      [](const std::vector<std::pair<std::uint64_t, double>>& single,
         const std::vector<std::pair<std::uint64_t, double>>& queued) {
        return graph::fit(points_of(single), points_of(queued));
      },
      py::arg("single"), py::arg("queued"));
}

void define_planner(py::module_& module) {
  py::class_<Plan>(module, "Plan", "How gradients are cut into buckets, and when each is reduced.")
      .def_readonly("rule", &Plan::rule)
      .def_readonly("finish_us", &Plan::finish_us)
      .def_property_readonly("exposed_us", &Plan::exposed_us)
      .def_property_readonly("hash", &Plan::hash)
      .def("evaluated", &evaluated, py::arg("ready_us"), py::arg("cost"))
      .def_property_readonly(
          "items",
          [](const Plan& plan) {
            py::list items;
            for (const graph::Item& item : plan.items)
              items.append(py::make_tuple(item.name, item.ready_us, item.bytes, item.offset));
            return items;
          })
      .def_property_readonly("buckets", [](const Plan& plan) {
        py::list buckets;
        for (const graph::Bucket& bucket : plan.buckets)
          buckets.append(
              py::make_tuple(bucket.first, bucket.end, bucket.bytes, bucket.ready_us, bucket.end_us));
        return buckets;
      });
  module.def(
      "plan",
      [](Given items, const LinearCost& cost, const graph::Limits& limits) {
        return graph::plan_linear(items_of(std::move(items)), cost, limits);
      },
      py::arg("items"), py::arg("cost"), py::arg("limits") = graph::Limits{});
  module.def(
      "rules_of_others",
      [](Given items, const LinearCost& cost) {
        return graph::rules_of_others(items_of(std::move(items)), graph::Cost::of(cost));
      },
      py::arg("items"), py::arg("cost"));
  module.def(
      "lower_bound_us",
      [](const Plan& plan, const LinearCost& cost) {
        return graph::lower_bound_us(plan.items, graph::Cost::of(cost));
      },
      py::arg("plan"), py::arg("cost"));
  module.def("explain", &explain, py::arg("plan"), py::arg("cost"), py::arg("measured") = py::none());
}

void define_graph(py::module_& module) {
  py::class_<Graph>(module, "Graph", "One step of training, as data.")
      .def_property_readonly("name", &Graph::name)
      .def("to_json", &graph::to_json)
      .def("to_text", &graph::to_text)
      .def("to_svg", &graph::to_svg)
      .def("__len__", [](const Graph& graph) { return graph.order().size(); });
  py::class_<graph::Insertion>(module, "Insertion", "A graph with collectives, and why they stand there.")
      .def_readonly("graph", &graph::Insertion::graph)
      .def_readonly("plan", &graph::Insertion::plan)
      .def_readonly("decisions", &graph::Insertion::decisions);
  module.def("parse_graph", &graph::parse_graph, py::arg("text"), py::arg("name"));
  module.def("fuse_kernels", &graph::fuse_kernels, py::arg("graph"));
  module.def("insert_all_reduce", &insert, py::arg("graph"), py::arg("strategy") = "smart_overlap",
             py::arg("cost") = LinearCost{}, py::arg("limits") = graph::Limits{}, py::arg("split_bytes") = 0,
             py::arg("form") = "flat", py::arg("ready_us") = std::map<std::string, double>());
  module.def(
      "check_memory",
      [](const Graph& graph, std::uint64_t budget_bytes) {
        const graph::MemoryPlan plan = graph::plan_memory(graph);
        graph::check_memory(graph, plan, budget_bytes);
        return plan.peak_bytes();
      },
      py::arg("graph"), py::arg("budget_bytes"));
  module.def(
      "summarize",
      [](const Graph& graph, const Spans& spans) {
        const graph::Summary summary = graph::summarize(graph, timeline_of(graph, spans));
        return std::map<std::string, double>{{"step_us", summary.step_us},
                                             {"compute_us", summary.compute_us},
                                             {"communication_us", summary.communication_us},
                                             {"exposed_us", summary.exposed_us},
                                             {"backward_end_us", summary.backward_end_us},
                                             {"communication_end_us", summary.communication_end_us},
                                             {"overlap", summary.overlap()},
                                             {"seed_efficiency", summary.seed_efficiency()}};
      },
      py::arg("graph"), py::arg("spans"));
  module.def(
      "to_chrome_trace",
      [](const Graph& graph, const std::vector<Spans>& steps, std::uint32_t rank) {
        std::vector<graph::Timeline> timelines;
        for (const Spans& spans : steps) timelines.push_back(timeline_of(graph, spans));
        return graph::to_chrome_trace(graph, timelines, rank);
      },
      py::arg("graph"), py::arg("steps"), py::arg("rank") = 0);
}

void define_scheduler(py::module_& module) {
  using graph::DynamicBucketScheduler;
  py::class_<DynamicBucketScheduler>(module, "DynamicBucketScheduler")
      .def(py::init([](double target_throughput, std::uint64_t bucket_size, const std::string& rule) {
             using Rule = DynamicBucketScheduler::Rule;
             const std::map<std::string, Rule> rules = {{"seed", Rule::seed}, {"steady", Rule::steady}};
             const auto found = rules.find(rule);
             const auto is = found == rules.end() ? std::nullopt : std::optional(found->second);
             DynamicBucketScheduler::Settings settings;
             settings.rule = known(is, "rule", rule, "seed, steady");
             settings.target_throughput = target_throughput;
             settings.bucket_mebibytes = bucket_size;
             return DynamicBucketScheduler(settings);
           }),
           py::arg("target_throughput"), py::arg("bucket_size") = 25, py::arg("rule") = "steady")
      .def("adjust_bucket_size", &DynamicBucketScheduler::adjust_bucket_size, py::arg("current_throughput"))
      .def("follow", &DynamicBucketScheduler::follow, py::arg("plan"))
      .def_property_readonly("bucket_size", &DynamicBucketScheduler::bucket_mebibytes);
}

void translate_graph_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const GraphError& error) {
      const py::object made = py::module_::import("cohort.graph.errors")
                                  .attr("error_of")(std::string(graph::to_string(error.code())), error.node(),
                                                    error.cause(), error.advice());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });
}

}  // namespace

void define_graphs(py::module_& module) {
  translate_graph_errors();
  define_costs(module);
  define_planner(module);
  define_graph(module);
  define_scheduler(module);
}

}  // namespace cohort::python
