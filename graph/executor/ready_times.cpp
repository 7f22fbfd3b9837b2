// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/ready_times.h>

#include <cohort/graph/dependencies.h>
#include <cohort/graph/timeline/median.h>

#include <algorithm>
#include <span>

namespace cohort::graph {

void ReadyTimes::add(const Graph& graph, const Timeline& step) {
  const Dependencies dependencies(graph);
  std::vector<double> ends(graph.node_bound(), 0);
  for (const Span& span : step.spans) ends[index_of(span.node)] = span.end_us;
  for (const std::string& name : names_)
    if (const auto tensor = graph.find_tensor(name))
      if (const auto producer = dependencies.producer(*tensor))
        samples_[name].push_back(ends[index_of(*producer)]);
}

std::map<std::string, double> ReadyTimes::medians() const {
  std::map<std::string, double> medians;
  for (const auto& [name, samples] : samples_) medians[name] = median(samples);
  return medians;
}

Task<std::map<std::string, double>> share_ready_times(Communicator& communicator,
                                                      std::map<std::string, double> ready_us) {
  std::vector<double> times;
  for (const auto& [name, us] : ready_us) times.push_back(us);
  if (!times.empty()) co_await communicator.all_reduce(std::span(times), ReduceOp::max);
  std::size_t next = 0;
  for (auto& [name, us] : ready_us) us = times[next++];
  co_return ready_us;
}

}  // namespace cohort::graph
