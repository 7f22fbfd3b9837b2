// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/operators/reference.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <limits>

namespace cohort::reference {
namespace {

template <class T>
T element_of(double value) noexcept {
  if constexpr (std::integral<T>)
    return static_cast<T>(static_cast<std::int64_t>(value));
  else if constexpr (std::floating_point<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

double combine_bits(ReduceOp op, std::int64_t left, std::int64_t right) noexcept {
  const bool is_left = left != 0;
  const bool is_right = right != 0;
  switch (op) {
    case ReduceOp::bit_and: return static_cast<double>(left & right);
    case ReduceOp::bit_or: return static_cast<double>(left | right);
    case ReduceOp::bit_xor: return static_cast<double>(left ^ right);
    case ReduceOp::logical_and: return is_left && is_right ? 1 : 0;
    case ReduceOp::logical_or: return is_left || is_right ? 1 : 0;
    case ReduceOp::logical_xor: return is_left != is_right ? 1 : 0;
    default: return 0;
  }
}

}  // namespace

double as_element(DataType type, double value) noexcept {
  return visit_element(
      type, [&](auto element) { return static_cast<double>(element_of<decltype(element)>(value)); });
}

void store(DataType type, std::byte* at, double value) noexcept {
  visit_element(type, [&](auto element) {
    element = element_of<decltype(element)>(value);
    std::memcpy(at, &element, sizeof element);
  });
}

double load(DataType type, const std::byte* at) noexcept {
  return visit_element(type, [&](auto element) {
    std::memcpy(&element, at, sizeof element);
    return static_cast<double>(element);
  });
}

double combine(DataType type, ReduceOp op, double left, double right) noexcept {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::scaled_sum:
    case ReduceOp::avg: return as_element(type, left + right);
    case ReduceOp::max: return std::max(left, right);
    case ReduceOp::min: return std::min(left, right);
    case ReduceOp::prod: return as_element(type, left * right);
    default: return combine_bits(op, static_cast<std::int64_t>(left), static_cast<std::int64_t>(right));
  }
}

/// Integers are cut off toward zero, as they are by conversion.
double finish(DataType type, ReduceOp op, double combined, Rank ranks) noexcept {
  return op == ReduceOp::avg ? as_element(type, combined / ranks) : combined;
}

int largest_summand(DataType type, std::size_t summands) noexcept {
  const int digits =
      visit_element(type, [](auto element) { return std::numeric_limits<decltype(element)>::digits; });
  constexpr int kMostDigits = 30;
  return static_cast<int>((std::size_t{1} << std::min(digits, kMostDigits)) / summands);
}

}  // namespace cohort::reference
