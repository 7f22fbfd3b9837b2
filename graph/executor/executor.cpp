// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/executor.h>

#include <cohort/graph/executor/reductions.h>
#include <cohort/graph/verify.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

namespace cohort::graph {
namespace {

std::uint64_t mixed(std::uint64_t digest, std::string_view text) {
  for (const char letter : text) digest = (digest ^ static_cast<std::uint8_t>(letter)) * 1099511628211ULL;
  return (digest ^ text.size()) * 1099511628211ULL;
}

bool needs_hosts(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return node.kind == NodeKind::collective && node.attribute_or<std::string>("group", "world") != "world";
  });
}

bool needs_equal_hosts(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    return graph.node(id).kind == NodeKind::collective &&
           graph.node(id).attribute_or<std::string>("group", "") == "across_hosts";
  });
}

ReduceOp reduction_of(const Node& node) {
  const std::string name = node.attribute_or<std::string>("reduction", "sum");
  const auto found = parse_reduce_op(name);
  if (!found)
    throw GraphError(ErrorCode::dist_graph_build, "node " + node.name,
                     fmt::format("{} is no reduction", name), "give sum, avg, max, min or another ReduceOp");
  return *found;
}

}  // namespace

Executor::Executor(Communicator& communicator, Graph graph, Kernels kernels, ExecutorOptions options)
    : communicator_(communicator),
      kernels_(std::move(kernels)),
      options_(std::move(options)),
      memory_(communicator),
      compute_(communicator.engine(), "compute"),
      communication_(communicator.engine(), "communication") {
  set_graph(std::move(graph));
}

void Executor::set_graph(Graph graph) {
  verify(graph);
  kernels_.check(graph);
  memory_.lay_out(graph, options_.memory_budget_bytes);
  accumulated_.clear();
  graph_ = std::move(graph);
  dependencies_.emplace(graph_);
  while (done_.size() < graph_.node_bound()) done_.emplace_back();
}

std::uint64_t Executor::digest() const {
  std::uint64_t digest = 14695981039346656037ULL;
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (node.kind != NodeKind::collective) continue;
    digest = mixed(digest, node.op);
    digest = mixed(digest, node.attribute_or<std::string>("group", "world"));
    digest = mixed(digest, node.attribute_or<std::string>("reduction", ""));
    for (const TensorId input : node.inputs) {
      digest = mixed(digest, graph_.tensor(input).name);
      digest = mixed(digest, fmt::format("{}", graph_.tensor(input).bytes()));
    }
  }
  return digest;
}

TensorId Executor::id_of(const std::string& name) const {
  if (const auto found = graph_.find_tensor(name)) return *found;
  throw GraphError(ErrorCode::dist_graph_build, "tensor " + name,
                   "the executor's graph has none of that name",
                   "name a tensor of the graph that runs; fusing removes those between");
}

Task<> Executor::prepare() {
  const std::uint64_t mine = digest();
  std::vector<std::uint64_t> all(communicator_.size());
  co_await communicator_.all_gather(std::span(&mine, 1), all);
  const auto other = std::ranges::find_if(all, [&](std::uint64_t one) { return one != all.front(); });
  if (other != all.end()) {
    const auto rank = static_cast<Rank>(other - all.begin());
    throw Error(
        ErrorKind::Mismatch,
        fmt::format("graph {}: rank {} has plan {:016x} and rank 0 has {:016x}: all ranks insert the same "
                    "collectives into the same graph; plan from the same ready times and costs, as "
                    "share_ready_times() and measure_cost() give them",
                    graph_.name(), rank, *other, all.front()))
        .with_culprit(rank);
  }
  if (needs_hosts(graph_) && !groups_.host) co_await groups_.open(communicator_);
  if (needs_equal_hosts(graph_) && !groups_.across_hosts)
    throw GraphError(ErrorCode::dist_graph_build, "graph " + graph_.name(),
                     "its gradients are to be reduced in shares, and hosts have different numbers of ranks",
                     "take form leader or flat");
}

Task<Timeline> Executor::run_step() {
  timeline_ = {};
  step_began_ = communicator_.engine().now();
  for (const NodeId id : graph_.order()) enqueue(id);
  Timeline timeline = co_await finish_step();
  accumulated_.clear();
  co_return timeline;
}

Task<Timeline> Executor::accumulate_step() {
  for (const NodeId id : graph_.order())
    for (const TensorId input : graph_.node(id).inputs)
      if (graph_.node(id).kind == NodeKind::collective && graph_.tensor(input).type != DataType::float32)
        throw GraphError(ErrorCode::dist_graph_build, "tensor " + graph_.tensor(input).name,
                         fmt::format("it is {}", cohort::to_string(graph_.tensor(input).type)),
                         "gradients are accumulated as float32");
  timeline_ = {};
  step_began_ = communicator_.engine().now();
  for (const NodeId id : graph_.order())
    if (graph_.node(id).kind == NodeKind::compute && graph_.node(id).phase != Phase::update)
      compute_.enqueue(compute(id));
  Timeline timeline = co_await finish_step();
  const std::span<const float> gradients = all_gradients();
  accumulated_.resize(gradients.size(), 0.0F);
  const auto add = [&] {
    for (std::size_t i = 0; i < gradients.size(); ++i) accumulated_[i] += gradients[i];
  };
  auto adding = communicator_.engine().offload(std::cref(add));
  co_await adding;
  co_return timeline;
}

std::span<float> Executor::all_gradients() const {
  const std::span<std::byte> raw = memory_.gradients();
  return {reinterpret_cast<float*>(raw.data()), raw.size() / sizeof(float)};
}

Task<> Executor::add_accumulated(std::span<std::byte> data) {
  const std::span<float> all = all_gradients();
  const auto begin = static_cast<std::size_t>(reinterpret_cast<float*>(data.data()) - all.data());
  const std::size_t size = data.size() / sizeof(float);
  const auto add = [&] {
    for (std::size_t i = begin; i < begin + size; ++i) all[i] += accumulated_[i];
  };
  auto adding = communicator_.engine().offload(std::cref(add));
  co_await adding;
}

Task<Timeline> Executor::finish_step() {
  std::exception_ptr failure;
  try {
    co_await compute_.synchronize();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) communication_.cancel();
  try {
    co_await communication_.synchronize();
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
  std::ranges::stable_sort(timeline_.spans, {}, &Span::begin_us);
  co_return std::move(timeline_);
}

void Executor::enqueue(NodeId id) {
  const bool is_collective = graph_.node(id).kind == NodeKind::collective;
  Stream& stream = is_collective ? communication_ : compute_;
  for (const NodeId before : dependencies_->predecessors(id))
    if (graph_.node(before).kind != graph_.node(id).kind) stream.wait(done_[index_of(before)]);
  stream.enqueue(is_collective ? communicate(id) : compute(id));
  const bool is_awaited = std::ranges::any_of(dependencies_->successors(id), [&](NodeId next) {
    return graph_.node(next).kind != graph_.node(id).kind;
  });
  if (is_awaited) stream.record(done_[index_of(id)]);
}

void Executor::note(NodeId id, TimePoint begin) {
  timeline_.spans.push_back({.node = id,
                             .kind = graph_.node(id).kind,
                             .begin_us = in_microseconds(begin - step_began_),
                             .end_us = in_microseconds(communicator_.engine().now() - step_began_)});
}

Task<> Executor::compute(NodeId id) {
  Engine& engine = communicator_.engine();
  const Node& node = graph_.node(id);
  const NodeCall call(graph_, node, memory_);
  const TimePoint begin = engine.now();
  if (node.op == "split" || node.op == "join") {
    // Views: the memory is the same.
  } else if (const AsyncKernel* const waits = kernels_.find_async(node.op)) {
    Task<> task = (*waits)(call);
    co_await task;
  } else {
    const Kernel* const kernel = kernels_.find(node.op);
    const auto work = [&] { kernel != nullptr ? (*kernel)(call) : kernels_.run_fused(call); };
    auto job = engine.offload(std::cref(work));
    co_await job;
  }
  note(id, begin);
}

Task<> Executor::communicate(NodeId id) {
  const Node& node = graph_.node(id);
  const TimePoint begin = communicator_.engine().now();
  const std::span<std::byte> first = memory_.bytes(node.inputs.front());
  std::size_t bytes = 0;
  for (const TensorId input : node.inputs) bytes += memory_.bytes(input).size();
  const DataType type = graph_.tensor(node.inputs.front()).type;
  const std::string group = node.attribute_or<std::string>("group", "world");
  const std::span<std::byte> data(first.data(), bytes);
  const bool is_first =
      node.op != "all_gather" && node.op != "broadcast" && (group == "world" || node.op != "all_reduce");
  if (!accumulated_.empty() && is_first) co_await add_accumulated(data);
  if (group == "world")
    co_await reduce(node, type, data);
  else if (node.attribute_or<std::string>("form", "") == "leader")
    co_await reduce_at_leader(node, type, data);
  else
    co_await reduce_shares(node, type, data);
  note(id, begin);
}

Task<> Executor::reduce(const Node& node, DataType type, std::span<std::byte> data) {
  if (options_.reduces && options_.reduces(node, type)) {
    std::string gradients = graph_.tensor(node.inputs.front()).name + "..";
    gradients += graph_.tensor(node.inputs.back()).name;
    const BucketCall call{.communicator = communicator_,
                          .node = node,
                          .gradients = std::move(gradients),
                          .type = type,
                          .data = data};
    Task<> task = options_.reduction(call);
    co_await task;
    co_return;
  }
  const ReduceOp op = reduction_of(node);
  co_await reduce_flat(communicator_, type, op, data);
}

Task<> Executor::reduce_shares(const Node& node, DataType type, std::span<std::byte> data) {
  Communicator& host = *groups_.host;
  const HostReduction how = host_reduction(node, type);
  if (node.op == "reduce_scatter")
    co_await reduce_to_shares(host, how, data);
  else if (node.op == "all_reduce")
    co_await reduce_share(host, *groups_.across_hosts, how, data);
  else
    co_await gather_shares(host, how, data);
}

Task<> Executor::reduce_at_leader(const Node& node, DataType type, std::span<std::byte> data) {
  Communicator& host = *groups_.host;
  const HostReduction how = host_reduction(node, type);
  if (node.op == "reduce")
    co_await reduce_to_leader(host, how, data);
  else if (node.op == "broadcast")
    co_await host.broadcast(type, data, 0);
  else if (groups_.leaders)
    co_await reduce_among_leaders(*groups_.leaders, how, data);
}

HostReduction Executor::host_reduction(const Node& node, DataType type) const {
  return {.type = type, .reduction = reduction_of(node), .ranks = communicator_.size()};
}

}  // namespace cohort::graph
