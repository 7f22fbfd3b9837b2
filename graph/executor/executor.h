// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/graph/executor/host_groups.h>
#include <cohort/graph/executor/kernels.h>
#include <cohort/graph/executor/tensor_memory.h>
#include <cohort/graph/timeline/timeline.h>
#include <cohort/notify/event.h>
#include <cohort/streams/stream.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cohort::graph {

/// A bucket that is to be reduced in some other way than by the library's collectives, as in compressed form.
struct BucketCall {
  Communicator& communicator;
  const Node& node;
  std::string gradients;  ///< "first..last" by name: what its residuals are kept by, whatever the plan
  DataType type;
  std::span<std::byte> data;  ///< all gradients of the bucket, reduced in place
};
/// Whether it reduces that bucket: false leaves it to the executor. The same on all ranks.
using BucketReducer = std::function<bool(const Node&, DataType)>;
using BucketReduction = std::function<Task<>(const BucketCall&)>;

struct ExecutorOptions {
  std::uint64_t memory_budget_bytes = 0;  ///< 0: none
  BucketReducer reduces{};                ///< of group "world" only
  BucketReduction reduction{};
};

/// Runs steps of a graph on one rank: compute nodes on the compute pool, one after another, collectives
/// beside them, tied by events: a collective waits for what makes its bucket, an update for its collective.
///
/// All ranks run the same graph, as far as collectives go: prepare() compares. Threads: the communicator's
/// engine; kernels run on its compute pool. Lifetime: within the communicator's, which runs no other
/// collectives during a step.
class Executor {
 public:
  /// Throws GraphError for a graph that cannot be run, as where a kernel is missing.
  Executor(Communicator& communicator, Graph graph, Kernels kernels, ExecutorOptions options = {});

  /// Makes the groups that the graph's collectives take, and compares the collectives of all ranks. A
  /// collective; before the first step, and after set_graph(). Throws Mismatch with the rank that has another
  /// plan, GraphError where hosts of different sizes are to be reduced in shares.
  [[nodiscard]] Task<> prepare();
  /// One step, measured. Throws the first failure of a kernel or collective.
  [[nodiscard]] Task<Timeline> run_step();

  /// A step without collectives and updates: its gradients, all float32, are added to those of the next
  /// run_step(), bucket by bucket before each is reduced. Throws GraphError (dist_graph_build) for gradients
  /// of another type.
  [[nodiscard]] Task<Timeline> accumulate_step();

  /// Another graph over the same parameters, inputs and state, between steps.
  void set_graph(Graph graph);
  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const TensorMemory& memory() const noexcept { return memory_; }
  /// Elements of that tensor. Throws GraphError (dist_graph_build) if there is none of that name.
  template <class T>
  [[nodiscard]] std::span<T> tensor(const std::string& name) const {
    return memory_.elements<T>(graph_, id_of(name));
  }
  [[nodiscard]] Communicator& communicator() const noexcept { return communicator_; }

 private:
  /// Of the collectives: what all ranks have to have in common.
  [[nodiscard]] std::uint64_t digest() const;
  [[nodiscard]] TensorId id_of(const std::string& name) const;
  void enqueue(NodeId id);
  /// Runs what was enqueued.
  Task<Timeline> finish_step();
  Task<> add_accumulated(std::span<std::byte> data);
  [[nodiscard]] std::span<float> all_gradients() const;
  Task<> compute(NodeId id);
  Task<> communicate(NodeId id);
  Task<> reduce(const Node& node, DataType type, std::span<std::byte> data);
  Task<> reduce_shares(const Node& node, DataType type, std::span<std::byte> data);
  Task<> reduce_at_leader(const Node& node, DataType type, std::span<std::byte> data);
  [[nodiscard]] HostReduction host_reduction(const Node& node, DataType type) const;
  void note(NodeId id, TimePoint begin);

  Communicator& communicator_;
  Graph graph_;
  Kernels kernels_;
  ExecutorOptions options_;
  TensorMemory memory_;
  std::optional<Dependencies> dependencies_;
  HostGroups groups_;
  Stream compute_;
  Stream communication_;
  std::deque<Event> done_;          ///< by node
  std::vector<float> accumulated_;  ///< gradients of steps before; empty: none
  TimePoint step_began_{};
  Timeline timeline_;
};

}  // namespace cohort::graph
