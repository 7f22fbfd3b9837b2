// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/pattern.h>

#include <algorithm>
#include <cstring>

namespace cohort::bench {
namespace {

/// Of the chunks in which patterns are written and compared: about 4 KiB of float32.
constexpr std::size_t kPeriodsPerChunk = 16;
constexpr std::size_t kChunk = kPeriodsPerChunk * kPeriod;

using Values = std::array<double, kPeriod>;

template <class T>
std::vector<std::byte> encode(const Values& values) {
  std::vector<std::byte> bytes((kChunk + kPeriod) * sizeof(T));
  for (std::size_t i = 0; i < kChunk + kPeriod; ++i) {
    const T element = static_cast<T>(values[i % kPeriod]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> encode(DataType type, const Values& values) {
  switch (type) {
    case DataType::float32: return encode<float>(values);
    case DataType::float64: return encode<double>(values);
    case DataType::int32: return encode<std::int32_t>(values);
    case DataType::int64: return encode<std::int64_t>(values);
    case DataType::byte: break;  // is not drawn: there is nothing to combine
  }
  return {};
}

/// Products stay below 2^31 with kMostRanks: one value in twelve is a 2, the others are 1 and -1.
double factor_at(std::size_t index) {
  if (index % 12 == 0) return 2;
  return index % 2 == 0 ? 1 : -1;
}

double input_at(ReduceOp op, std::size_t index) {
  const std::size_t place = index % kPeriod;
  return op == ReduceOp::prod ? factor_at(place) : static_cast<double>(place * 7 % kPeriod) - 30;
}

double combined_at(ReduceOp op, Rank ranks, std::size_t index) {
  double result = input_at(op, index);
  for (Rank rank = 1; rank < ranks; ++rank) {
    const double value = input_at(op, index + TestData::first_of(rank, 0));
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg: result += value; break;
      case ReduceOp::max: result = std::max(result, value); break;
      case ReduceOp::min: result = std::min(result, value); break;
      case ReduceOp::prod: result *= value; break;
    }
  }
  return op == ReduceOp::avg ? result / ranks : result;
}

template <class At>
Values tabulate(At at) {
  Values values;
  for (std::size_t i = 0; i < kPeriod; ++i) values[i] = at(i);
  return values;
}

}  // namespace

Pattern::Pattern(DataType type, const std::array<double, kPeriod>& values)
    : element_bytes_(size_bytes(type)), elements_(encode(type, values)) {}

std::span<const std::byte> Pattern::chunk(std::uint64_t first) const noexcept {
  return std::span(elements_).subspan(first % kPeriod * element_bytes_, kChunk * element_bytes_);
}

void Pattern::write(std::span<std::byte> to, std::uint64_t first) const {
  const std::span<const std::byte> from = chunk(first);
  while (!to.empty()) {
    const std::size_t bytes = std::min(to.size(), from.size());
    std::memcpy(to.data(), from.data(), bytes);
    to = to.subspan(bytes);
  }
}

std::size_t Pattern::count_wrong(std::span<const std::byte> values, std::uint64_t first) const {
  const std::span<const std::byte> expected = chunk(first);
  std::size_t wrong = 0;
  while (!values.empty()) {
    const std::size_t bytes = std::min(values.size(), expected.size());
    const bool is_right = std::memcmp(values.data(), expected.data(), bytes) == 0;
    for (std::size_t at = 0; !is_right && at < bytes; at += element_bytes_)
      wrong += std::memcmp(values.data() + at, expected.data() + at, element_bytes_) != 0 ? 1 : 0;
    values = values.subspan(bytes);
  }
  return wrong;
}

TestData::TestData(DataType type, ReduceOp op, Rank ranks)
    : input(type, tabulate([op](std::size_t i) { return input_at(op, i); })),
      combined(type, tabulate([op, ranks](std::size_t i) { return combined_at(op, ranks, i); })) {}

}  // namespace cohort::bench
