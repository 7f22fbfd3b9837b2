// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/call.h>

#include <cohort/collectives/operators/reference.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace cohort {
namespace {

[[noreturn]] void refuse(std::string text) { throw Error(ErrorKind::InvalidArgument, std::move(text)); }

// What refuses stands apart: a small call that is right passes only the tests.

/// No memory is larger: above it is a count that fell below zero, or a product that did not fit. The product
/// with the most ranks that there are still fits a std::size_t.
constexpr std::size_t kMostBytes = (std::size_t{1} << 48) - 1;

[[noreturn, gnu::cold]] void refuse_size(Operator op, DataType type, std::size_t bytes) {
  if (bytes > kMostBytes)
    refuse(fmt::format("{} of {} bytes, more than any memory has; did the count fall below zero?",
                       to_string(op), bytes));
  refuse(
      fmt::format("{} of {} bytes, which is no whole number of {}", to_string(op), bytes, to_string(type)));
}

[[noreturn, gnu::cold]] void refuse_uneven(Operator op, std::size_t elements, std::size_t per_count,
                                           Rank ranks, std::string_view buffer) {
  const std::size_t padded = (elements + per_count - 1) / per_count * per_count;
  refuse(fmt::format(
      "{} of {} elements cannot be split evenly over {} ranks; pad the {} with {} neutral elements "
      "to {} on every rank",
      to_string(op), elements, ranks, buffer, padded - elements, padded));
}

[[noreturn, gnu::cold]] void refuse_combination(Operator op, DataType type, ReduceOp reduce) {
  if (type == DataType::byte)
    refuse(fmt::format("{} of bytes: they can be moved, not combined; give {}", to_string(op),
                       types_of(reduce)));
  refuse(fmt::format("{}: {} does not combine {}; give {}", to_string(op), to_string(reduce), to_string(type),
                     types_of(reduce)));
}

[[noreturn, gnu::cold]] void refuse_overlap(Operator op) {
  refuse(
      fmt::format("{}: input and output overlap in part; give the same place (in place) or separate memory",
                  to_string(op)));
}

[[noreturn, gnu::cold]] void refuse_factor(Operator op, DataType type, double factor) {
  refuse(fmt::format("{}: the factor {} of scaled_sum is no {}; give one that is, or combine another type",
                     to_string(op), factor, to_string(type)));
}

/// The factor becomes an element: of integers the same number, of floats one that is near it.
[[gnu::cold]] void check_factor(Operator op, DataType type, double factor) {
  constexpr double kMostWhole = 1LL << std::numeric_limits<double>::digits;
  const double largest = visit_element(
      type, [](auto e) { return static_cast<double>(std::numeric_limits<decltype(e)>::max()); });
  const bool is_within = std::abs(factor) <= (is_integer(type) ? std::min(kMostWhole, largest) : largest);
  if (!is_within) refuse_factor(op, type, factor);
  const double element = reference::as_element(type, factor);
  const bool is_lost = is_integer(type) ? element != factor : (element == 0) != (factor == 0);
  if (is_lost) refuse_factor(op, type, factor);
}

std::size_t elements_of(Operator op, DataType type, std::size_t bytes) {
  const std::size_t element = size_bytes(type);
  if ((bytes & (~kMostBytes | (element - 1))) != 0) [[unlikely]]
    refuse_size(op, type, bytes);
  return bytes >> std::countr_zero(element);
}

/// Elements over those of a count of one.
std::size_t count_of(Operator op, std::size_t elements, std::size_t per_count, Rank ranks,
                     std::string_view buffer) {
  if (per_count == 1) return elements;  // nearly always, and no division
  if (elements % per_count != 0) refuse_uneven(op, elements, per_count, ranks, buffer);
  return elements / per_count;
}

/// Both buffers hold as many elements for a count of one.
[[gnu::cold]] std::string size_advice(Operator op, const Extent& extent, std::size_t in, std::size_t out,
                                      Rank ranks, std::size_t element) {
  if (extent.send == extent.recv)
    return fmt::format("{} with {} bytes of input and {} of output; both have the same size", to_string(op),
                       in, out);
  if (extent.recv > extent.send)
    return fmt::format("{} of {} bytes from each of {} ranks needs {} bytes of output, not {}", to_string(op),
                       in, ranks, in * extent.recv, out);
  return fmt::format("{} of {} bytes over {} ranks needs {} bytes of output, not {}", to_string(op), in,
                     ranks, in / element / extent.send * extent.recv * element, out);
}

void check_place(Operator op, std::string_view buffer, DataType type, const std::byte* place,
                 std::size_t bytes) {
  if (bytes == 0) return;
  if (place == nullptr)
    refuse(fmt::format("{}: the {} of {} bytes is null; give it memory, or no elements", to_string(op),
                       buffer, bytes));
  const std::size_t element = size_bytes(type);
  if (reinterpret_cast<std::uintptr_t>(place) % element == 0) return;
  refuse(
      fmt::format("{}: the {} at {} is not aligned to its elements, {} of {} bytes; copy it to where they "
                  "may lie",
                  to_string(op), buffer, static_cast<const void*>(place), to_string(type), element));
}

[[gnu::cold]] void check_places(const Call& call) {
  const bool is_one = call.op->has_one_buffer;
  check_place(call.op, is_one ? "buffer" : "output", call.type, call.recv, call.recv_bytes);
  if (!is_one) check_place(call.op, "input", call.type, call.send, call.send_bytes);
}

/// Both are memory in which elements may lie. Only a buffer that is not used may be anything else.
void refuse_wrong_places(const Call& call, std::size_t element) {
  const auto send = reinterpret_cast<std::uintptr_t>(call.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(call.recv);
  if (send == 0 || recv == 0 || ((send | recv) & (element - 1)) != 0) [[unlikely]]
    check_places(call);
}

/// The same memory or none in common.
void refuse_partial_overlap(Operator op, const Call& call, Rank rank, std::size_t element) {
  if (call.send_bytes == 0 || call.recv_bytes == 0) return;
  const bool apart = call.send + call.send_bytes <= call.recv || call.recv + call.recv_bytes <= call.send;
  if (apart || call.op->has_one_buffer) return;
  const InPlace in_place = op->in_place(call.count, rank);
  if (call.send + in_place.send_at * element != call.recv + in_place.recv_at * element) refuse_overlap(op);
}

Call begin_call(Operator op, const CallArguments& arguments, Rank ranks) {
  if (op->has_root && arguments.root >= ranks)
    refuse(fmt::format("{} {} rank {}, but the ranks are 0 to {}", to_string(op),
                       op->has_one_buffer ? "from" : "with root", arguments.root, ranks - 1));
  Call call;
  call.op = op;
  if (!op->has_data) return call;
  call.type = arguments.type;
  if (op->has_root) call.root = arguments.root;
  if (!op->combines) return call;
  if (!applies(arguments.reduce.op, call.type)) [[unlikely]]
    refuse_combination(op, call.type, arguments.reduce.op);
  call.reduce = arguments.reduce.op;
  if (call.reduce != ReduceOp::scaled_sum) [[likely]]
    return call;
  check_factor(op, call.type, arguments.reduce.factor);
  call.factor = arguments.reduce.factor;
  return call;
}

/// Of the rank that brings most.
std::size_t announced_bytes(const Call& call, Rank ranks) {
  return call.message_bytes() * call.op.given_per_count(ranks);
}

}  // namespace

Call make_call(Operator op, const CallArguments& arguments, Rank rank, Rank ranks) {
  Call call = begin_call(op, arguments, ranks);
  if (!op->has_data) return call;
  const std::size_t element = size_bytes(call.type);
  const Extent extent = op->extent(ranks, call.root, rank);
  call.recv = arguments.out.data();
  call.send = op->has_one_buffer ? call.recv : const_cast<std::byte*>(arguments.in.data());
  const bool by_output = op->has_one_buffer || extent.send == 0;
  const std::size_t given = by_output ? arguments.out.size() : arguments.in.size();
  const std::size_t per_count = by_output ? extent.recv : extent.send;
  call.count =
      count_of(op, elements_of(op, call.type, given), per_count, ranks, by_output ? "output" : "input");
  call.send_bytes = call.count * extent.send * element;
  call.recv_bytes = call.count * extent.recv * element;
  call.announced_bytes = op->has_root ? announced_bytes(call, ranks) : call.send_bytes;
  if (extent.recv != 0 && call.recv_bytes != arguments.out.size())
    refuse(size_advice(op, extent, arguments.in.size(), arguments.out.size(), ranks, element));
  refuse_wrong_places(call, element);
  refuse_partial_overlap(op, call, rank, element);
  return call;
}

Call make_call_of_size(Operator op, DataType type, std::size_t bytes, Rank ranks) {
  CallArguments arguments;
  arguments.type = type;
  Call call = begin_call(op, arguments, ranks);
  if (!op->has_data) return call;
  const std::size_t elements = elements_of(op, type, bytes);
  const Extent extent = op->extent(ranks, 0, 0);
  call.count = count_of(op, elements, op.elements_per_count(ranks), ranks,
                        extent.recv > extent.send ? "output" : "input");
  call.send_bytes = call.message_bytes() * extent.send;
  call.recv_bytes = call.message_bytes() * extent.recv;
  call.announced_bytes = announced_bytes(call, ranks);
  return call;
}

}  // namespace cohort
