// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/insert_all_reduce.h>

#include <cohort/graph/planner/rules.h>
#include <cohort/graph/verify.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cohort::graph {
namespace {

constexpr std::array<std::string_view, 4> kStrategyNames = {"synchronous", "compute_communication_overlap",
                                                            "hierarchical", "smart_overlap"};

/// Buckets that close as soon as the limits allow it; without limits each gradient is one.
std::vector<Bucket> filled(const std::vector<Item>& items, const Limits& limits) {
  std::vector<Bucket> buckets;
  for (std::size_t first = 0; first < items.size();) {
    std::size_t end = first + 1;
    std::uint64_t bytes = items[first].bytes;
    const std::uint64_t enough = std::max(limits.min_tensor_bytes, limits.bucket_bytes);
    while (end < items.size() && bytes < enough &&
           (limits.max_group_size == 0 || end - first < limits.max_group_size) &&
           (limits.bucket_bytes == 0 || bytes + items[end].bytes <= limits.bucket_bytes))
      bytes += items[end++].bytes;
    buckets.push_back({.first = first, .end = end});
    first = end;
  }
  return buckets;
}

Plan plan_of(std::vector<Item> items, const InsertOptions& options) {
  if (options.rule) return options.rule(std::move(items), options.cost);
  if (options.strategy == Strategy::smart_overlap)
    return plan(std::move(items), options.cost, options.limits);
  Plan made{.rule = std::string(to_string(options.strategy)), .items = std::move(items)};
  const bool is_synchronous = options.strategy == Strategy::synchronous;
  const Limits& limits = options.limits;
  if (is_synchronous && limits.bucket_bytes == 0 && limits.max_group_size == 0)
    made.buckets = {{.first = 0, .end = made.items.size()}};
  else
    made.buckets = filled(made.items, limits);
  if (is_synchronous)
    for (Bucket& bucket : made.buckets) bucket.not_before_us = made.items.back().ready_us;
  evaluate(made, options.cost);
  return made;
}

/// The place of a parameter's first use in forward.
std::int64_t first_use(const Graph& graph, const Dependencies& dependencies, TensorId parameter) {
  std::size_t first = graph.order().size();
  for (const NodeId reader : dependencies.consumers(parameter))
    if (graph.node(reader).phase == Phase::forward) first = std::min(first, dependencies.position(reader));
  return static_cast<std::int64_t>(first);
}

/// Behind the last node of backward.
std::size_t end_of_backward(const Graph& graph) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < graph.order().size(); ++i)
    if (graph.node(graph.order()[i]).phase == Phase::backward) end = i + 1;
  return end;
}

/// A graph while its collectives are inserted.
class Inserter {
 public:
  Inserter(const Graph& graph, const InsertOptions& options) : options_(options) {
    verify(graph);
    result_.graph = with_updates_last(graph);
  }

  Insertion insert() {
    std::vector<Gradient> gradients = find_gradients(result_.graph, Dependencies(result_.graph));
    add_up_parts(result_.graph, gradients);
    result_.plan = plan_of(items_of(result_.graph, gradients, options_), options_);
    tell(gradients);
    std::map<std::string, Gradient> by_name;
    for (const Gradient& gradient : gradients)
      by_name.emplace(result_.graph.tensor(gradient.parts.front()).name, gradient);
    order_updates(by_name);
    place(by_name);
    insert_buckets(by_name);
    for (const auto& [gradient, results] : results_of_pieces_) join_pieces(result_.graph, gradient, results);
    verify(result_.graph);
    return std::move(result_);
  }

 private:
  void tell(const std::vector<Gradient>& gradients) {
    for (const Gradient& gradient : gradients)
      result_.decisions.push_back(fmt::format("gradient {} of {}: {} bytes",
                                              result_.graph.tensor(gradient.parts.front()).name,
                                              result_.graph.tensor(gradient.parameter).name,
                                              result_.graph.tensor(gradient.parts.front()).bytes()));
  }

  void order_updates(const std::map<std::string, Gradient>& by_name) {
    std::map<TensorId, std::size_t> bucket_of;
    for (std::size_t i = 0; i < result_.plan.buckets.size(); ++i)
      for (std::size_t item = result_.plan.buckets[i].first; item < result_.plan.buckets[i].end; ++item)
        bucket_of[by_name.at(result_.plan.items[item].name).parts.front()] = i;
    result_.graph = with_updates_as_reduced(std::move(result_.graph), bucket_of);
  }

  /// The tensor of each item: a gradient, or one of its pieces.
  void place(const std::map<std::string, Gradient>& by_name) {
    std::map<std::string, std::vector<std::size_t>> pieces;
    for (std::size_t i = 0; i < result_.plan.items.size(); ++i)
      pieces[result_.plan.items[i].name].push_back(i);
    tensors_.resize(result_.plan.items.size());
    for (const auto& [name, items] : pieces) {
      const TensorId whole = by_name.at(name).parts.front();
      if (items.size() == 1) {
        tensors_[items.front()] = whole;
        continue;
      }
      std::vector<std::uint64_t> bytes;
      for (const std::size_t item : items) bytes.push_back(result_.plan.items[item].bytes);
      const std::vector<TensorId> cut = split_gradient(result_.graph, whole, bytes);
      for (std::size_t i = 0; i < items.size(); ++i) {
        tensors_[items[i]] = cut[i];
        whole_of_[cut[i]] = whole;
      }
    }
  }

  [[nodiscard]] std::vector<std::size_t> positions(const Dependencies& dependencies) const {
    std::vector<std::size_t> positions;
    std::size_t least = options_.strategy == Strategy::synchronous ? end_of_backward(result_.graph) : 0;
    for (const Bucket& bucket : result_.plan.buckets) {
      const std::span<const TensorId> tensors(&tensors_[bucket.first], bucket.size());
      least = std::max(least, earliest_insertion_point(dependencies, tensors));
      positions.push_back(least);
    }
    return positions;
  }

  void insert_buckets(const std::map<std::string, Gradient>& by_name) {
    const Dependencies dependencies(result_.graph);
    const std::vector<std::size_t> at = positions(dependencies);
    std::vector<std::vector<NodeId>> inserted(at.size());
    std::optional<NodeId> before;
    if (options_.strategy == Strategy::synchronous)
      before = result_.graph.order()[end_of_backward(result_.graph) - 1];
    for (std::size_t i = at.size(); i-- > 0;) {
      const CollectiveSpec spec = spec_of(i, result_.plan.buckets[i], by_name, dependencies);
      const std::vector<std::vector<std::size_t>> by_type = items_by_type(result_.plan.buckets[i]);
      for (auto items = by_type.rbegin(); items != by_type.rend(); ++items) {
        const std::vector<NodeId> nodes = insert_items(*items, spec, dependencies, at[i]);
        inserted[i].insert(inserted[i].begin(), nodes.begin(), nodes.end());
      }
    }
    for (std::size_t i = 0; i < inserted.size(); ++i) {
      for (const NodeId node : inserted[i]) {
        if (before) result_.graph.node(node).after.push_back(*before);
        before = node;
      }
      tell(i, result_.plan.buckets[i], at[i]);
    }
    for (const auto& [item, result] : results_by_item_)
      results_of_pieces_[whole_of_.at(tensors_[item])].push_back(result);
  }

  /// One collective has elements of one type.
  [[nodiscard]] std::vector<std::vector<std::size_t>> items_by_type(const Bucket& bucket) const {
    std::vector<std::vector<std::size_t>> groups;
    for (std::size_t i = bucket.first; i < bucket.end; ++i) {
      const DataType type = result_.graph.tensor(tensors_[i]).type;
      const auto same = std::ranges::find_if(groups, [&](const std::vector<std::size_t>& group) {
        return result_.graph.tensor(tensors_[group.front()]).type == type;
      });
      if (same == groups.end())
        groups.push_back({i});
      else
        same->push_back(i);
    }
    return groups;
  }

  std::vector<NodeId> insert_items(const std::vector<std::size_t>& items, const CollectiveSpec& spec,
                                   const Dependencies& dependencies, std::size_t position) {
    std::vector<TensorId> tensors;
    for (const std::size_t item : items) tensors.push_back(tensors_[item]);
    std::vector<Node> nodes = create_all_reduce(result_.graph, tensors, spec);
    for (std::size_t k = 0; k < items.size(); ++k)
      if (whole_of_.contains(tensors[k])) results_by_item_[items[k]] = nodes.back().outputs[k];
    return insert_collectives(result_.graph, dependencies, std::move(nodes), position);
  }

  void tell(std::size_t index, const Bucket& bucket, std::size_t position) {
    result_.decisions.push_back(fmt::format(
        "bucket {}: {} gradients, {} bytes, behind node {}, ready at {:.1f} us, reduced at {:.1f} us", index,
        bucket.size(), bucket.bytes, position, bucket.ready_us, bucket.end_us));
  }

  [[nodiscard]] CollectiveSpec spec_of(std::size_t index, const Bucket& bucket,
                                       const std::map<std::string, Gradient>& by_name,
                                       const Dependencies& dependencies) const {
    CollectiveSpec spec{.name = fmt::format("reduce_bucket_{}", index),
                        .form = options_.form,
                        .reduction = options_.reduction,
                        .bucket = static_cast<std::int64_t>(index),
                        .priority = static_cast<std::int64_t>(result_.graph.order().size())};
    if (options_.strategy == Strategy::hierarchical && spec.form == ReduceForm::flat)
      spec.form = ReduceForm::shares;
    for (std::size_t i = bucket.first; i < bucket.end; ++i)
      spec.priority = std::min(spec.priority, first_use(result_.graph, dependencies,
                                                        by_name.at(result_.plan.items[i].name).parameter));
    return spec;
  }

  const InsertOptions& options_;
  Insertion result_{};
  std::vector<TensorId> tensors_;                    ///< by item
  std::map<TensorId, TensorId> whole_of_;            ///< of pieces
  std::map<std::size_t, TensorId> results_by_item_;  ///< of pieces
  std::map<TensorId, std::vector<TensorId>> results_of_pieces_;
};

}  // namespace

std::string_view to_string(Strategy strategy) noexcept {
  return kStrategyNames[static_cast<std::size_t>(strategy)];
}
std::optional<Strategy> parse_strategy(std::string_view name) noexcept {
  const auto found = std::ranges::find(kStrategyNames, name);
  if (found == kStrategyNames.end()) return std::nullopt;
  return static_cast<Strategy>(found - kStrategyNames.begin());
}

std::vector<Item> items_of(const Graph& graph, const std::vector<Gradient>& gradients,
                           const InsertOptions& options) {
  const Dependencies dependencies(graph);
  const std::vector<double> ends = end_times_us(graph);
  std::vector<Item> items;
  for (const Gradient& gradient : gradients) {
    const Tensor& tensor = graph.tensor(gradient.parts.front());
    const auto measured = options.ready_us.find(tensor.name);
    const double predicted = ends[index_of(*dependencies.producer(gradient.parts.front()))];
    const std::vector<Item> whole = {
        {.name = tensor.name,
         .ready_us = measured == options.ready_us.end() ? predicted : measured->second,
         .bytes = tensor.bytes()}};
    for (Item& piece : split(whole, options.split_bytes, size_bytes(tensor.type)))
      items.push_back(std::move(piece));
  }
  sort_by_readiness(items);
  return items;
}

Insertion insert_all_reduce(const Graph& graph, const InsertOptions& options) {
  return Inserter(graph, options).insert();
}

}  // namespace cohort::graph
