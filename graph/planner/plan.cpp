// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/plan.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

namespace cohort::graph {
namespace {

/// FNV-1a.
class Digest {
 public:
  void add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) mix(static_cast<std::uint8_t>(number >> (8 * byte)));
  }
  void add(std::string_view text) {
    for (const char letter : text) mix(static_cast<std::uint8_t>(letter));
    add(text.size());
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211ULL; }
  std::uint64_t value_ = 14695981039346656037ULL;
};

void check_covers(const Plan& plan) {
  std::size_t next = 0;
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.first != next || bucket.end <= bucket.first || bucket.end > plan.items.size())
      throw Error(
          ErrorKind::InvalidArgument,
          fmt::format("plan {}: a bucket has items {} to {} where item {} is next; each item belongs to "
                      "one bucket, in order",
                      plan.rule, bucket.first, bucket.end, next));
    next = bucket.end;
  }
  if (next != plan.items.size())
    throw Error(ErrorKind::InvalidArgument, fmt::format("plan {}: {} of {} items are in no bucket", plan.rule,
                                                        plan.items.size() - next, plan.items.size()));
}

/// The least that sending items i to the last takes, once all are there.
std::vector<double> least_to_send(std::span<const Item> items, const Cost& cost) {
  std::vector<double> least(items.size() + 1, std::numeric_limits<double>::infinity());
  least[items.size()] = 0;
  for (std::size_t i = items.size(); i-- > 0;) {
    std::uint64_t bytes = 0;
    for (std::size_t end = i + 1; end <= items.size(); ++end) {
      bytes += items[end - 1].bytes;
      const double one = std::min(cost.queued(bytes), cost.idle(bytes));
      least[i] = std::min(least[i], one + least[end]);
    }
  }
  return least;
}

}  // namespace

double Plan::exposed_us() const noexcept {
  return items.empty() ? 0 : std::max(0.0, finish_us - items.back().ready_us);
}

std::uint64_t Plan::hash() const noexcept {
  Digest digest;
  digest.add(items.size());
  for (const Item& item : items) {
    digest.add(item.name);
    digest.add(item.bytes);
    digest.add(item.offset);
  }
  for (const Bucket& bucket : buckets) digest.add(bucket.end);
  return digest.value();
}

void sort_by_readiness(std::vector<Item>& items) { std::ranges::stable_sort(items, {}, &Item::ready_us); }

std::vector<Item> split(std::span<const Item> items, std::uint64_t most_bytes, std::uint64_t element_bytes) {
  std::vector<Item> pieces;
  for (const Item& item : items) {
    const std::uint64_t elements = item.bytes / element_bytes;
    const std::uint64_t most = std::max<std::uint64_t>(1, most_bytes / element_bytes);
    const std::uint64_t count =
        most_bytes == 0 ? 1 : std::max<std::uint64_t>(1, (elements + most - 1) / most);
    std::uint64_t done = 0;
    for (std::uint64_t piece = 0; piece < count; ++piece) {
      const std::uint64_t until =
          piece + 1 == count ? item.bytes : elements * (piece + 1) / count * element_bytes;
      pieces.push_back(item);
      pieces.back().offset = item.offset + done;
      pieces.back().bytes = until - done;
      done = until;
    }
  }
  return pieces;
}

void evaluate(Plan& plan, const Cost& cost) {
  if (!std::ranges::is_sorted(plan.items, {}, &Item::ready_us))
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("plan {}: items are not in the order in which they are ready; use "
                            "sort_by_readiness()",
                            plan.rule));
  check_covers(plan);
  double before = -std::numeric_limits<double>::infinity();
  for (Bucket& bucket : plan.buckets) {
    bucket.bytes = 0;
    for (std::size_t i = bucket.first; i < bucket.end; ++i) bucket.bytes += plan.items[i].bytes;
    bucket.ready_us = std::max(plan.items[bucket.end - 1].ready_us, bucket.not_before_us);
    bucket.end_us = std::max(bucket.ready_us + cost.idle(bucket.bytes), before + cost.queued(bucket.bytes));
    before = bucket.end_us;
  }
  plan.finish_us = plan.buckets.empty() ? 0 : before;
}

double lower_bound_us(std::span<const Item> items, const Cost& cost) {
  double bound = 0;
  if (!cost.linear) {
    const std::vector<double> least = least_to_send(items, cost);
    for (std::size_t i = 0; i < items.size(); ++i) bound = std::max(bound, items[i].ready_us + least[i]);
    return bound;
  }
  std::uint64_t bytes = 0;
  for (std::size_t i = items.size(); i-- > 0;) {
    bytes += items[i].bytes;
    bound = std::max(bound, items[i].ready_us + cost.linear->idle(bytes));
  }
  return bound;
}

}  // namespace cohort::graph
