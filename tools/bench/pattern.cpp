// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/pattern.h>

#include <cohort/collectives/schedules/operators/reference.h>

#include <algorithm>
#include <cstring>

namespace cohort::bench {
namespace {

/// Of the chunks in which patterns are written and compared: about 4 KiB of float32.
constexpr std::size_t kPeriodsPerChunk = 16;
constexpr std::size_t kChunk = kPeriodsPerChunk * kPeriod;

using Values = std::array<double, kPeriod>;

std::vector<std::byte> encode(DataType type, const Values& values) {
  const std::size_t element = size_bytes(type);
  std::vector<std::byte> bytes((kChunk + kPeriod) * element);
  for (std::size_t i = 0; i < kChunk + kPeriod; ++i)
    reference::store(type, bytes.data() + i * element, values[i % kPeriod]);
  return bytes;
}

bool has_sign(DataType type) { return kind_of(type) != DataKind::unsigned_integer; }

/// One value in twelve is a 2, the others are 1 and, with a sign, -1: products of kMostRanks stay below 2^31.
double factor_at(DataType type, std::size_t place) {
  if (place % 12 == 0) return 2;
  return place % 2 == 0 || !has_sign(type) ? 1 : -1;
}

/// Where sums of ones are not exact any more, as of many floats of 8 bits: a few of either sign. From one
/// rank to the next a place moves by 17, and by one in the order in which the few are counted out.
double sparse_at(std::size_t place) {
  constexpr std::size_t kTurnBack = 18;  // 17 * 18 = 1 in a period of 61
  const std::size_t turn = place * kTurnBack % kPeriod;
  return turn == 0 ? 1 : turn == kPeriod / 2 ? -1 : 0;
}

/// The numbers around zero, each once, or as many as are summed exactly.
double input_at(DataType type, ReduceOp op, Rank ranks, std::size_t index) {
  const std::size_t place = index % kPeriod;
  if (op == ReduceOp::prod) return factor_at(type, place);
  constexpr int kMost = kPeriod / 2;
  const int most = std::min(kMost, reference::largest_summand(type, ranks));
  if (most == 0) return sparse_at(place);
  // Squares: where values are few, a place moved by any distance still meets another one mostly.
  const std::size_t number = (most == kMost ? place : place * place) * 7 % kPeriod;
  const auto value = static_cast<int>(number % static_cast<std::size_t>(2 * most + 1));
  return has_sign(type) ? value - most : value;
}

double combined_at(DataType type, ReduceOp op, Rank ranks, std::size_t index) {
  double result = input_at(type, op, ranks, index);
  for (Rank rank = 1; rank < ranks; ++rank)
    result =
        reference::combine(type, op, result, input_at(type, op, ranks, index + TestData::first_of(rank, 0)));
  return reference::finish(type, op, result, ranks);
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
    : input(type, tabulate([=](std::size_t i) { return input_at(type, op, ranks, i); })),
      combined(type, tabulate([=](std::size_t i) { return combined_at(type, op, ranks, i); })) {}

}  // namespace cohort::bench
