// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/top_k.h>

#include <cohort/engine/engine.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace cohort::graph {
namespace {

struct Entry {
  std::uint32_t place = 0;
  float value = 0;
};

std::size_t count_of(std::size_t elements, double ratio) {
  const double wanted = std::ceil(static_cast<double>(elements) * ratio);
  return std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, elements);
}

std::vector<Entry> largest(std::span<const float> values, std::size_t count) {
  std::vector<std::uint32_t> places(values.size());
  std::iota(places.begin(), places.end(), 0U);
  const auto size_of = [&](std::uint32_t place) {  // what is not a number has an order, too
    const float value = values[place];
    return std::isnan(value) ? std::numeric_limits<float>::infinity() : std::abs(value);
  };
  const auto is_larger = [&](std::uint32_t one, std::uint32_t other) {
    const float a = size_of(one);
    const float b = size_of(other);
    return a != b ? a > b : one < other;
  };
  std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count - 1), places.end(),
                   is_larger);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) entries.push_back({.place = places[i], .value = values[places[i]]});
  return entries;
}

}  // namespace

Task<> TopKCompressor::reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                              bool averages) {
  if (data.empty()) co_return;
  const bool has_momentum = options().momentum > 0;
  const std::span<float> momentum =
      has_momentum ? std::span<float>(kept(name + ".momentum", data.size())) : std::span<float>();
  for (std::size_t i = 0; i < momentum.size(); ++i) {
    momentum[i] = static_cast<float>(options().momentum) * momentum[i] + data[i];
    data[i] = momentum[i];
  }
  const std::span<float> residual = with_residual(name, data);
  const std::size_t count = count_of(data.size(), options().top_ratio);
  std::vector<Entry> mine;
  const auto encode = [&] {
    mine = largest(data, count);
    for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = finite_or_zero(data[i]);
    for (float& value : momentum) value = finite_or_zero(value);
    for (const Entry& entry : mine) {
      if (!residual.empty()) residual[entry.place] = 0;
      if (has_momentum) momentum[entry.place] = 0;  // DGC's factor masking
    }
  };
  auto encoding = communicator.engine().offload(std::cref(encode));
  co_await encoding;
  std::vector<Entry> all(count * communicator.size());
  co_await communicator.all_gather_bytes(std::span(mine), std::span(all));
  const float weight = averages ? 1.0F / static_cast<float>(communicator.size()) : 1.0F;
  std::ranges::fill(data, 0.0F);
  for (const Entry& entry : all) data[entry.place] += weight * entry.value;
}

std::uint64_t TopKCompressor::equivalent_bytes(std::uint64_t elements, Rank ranks) const {
  // An all_reduce moves each byte twice, an all_gather once from each rank.
  return count_of(std::max<std::uint64_t>(1, elements), options().top_ratio) * sizeof(Entry) * ranks / 2;
}

}  // namespace cohort::graph
