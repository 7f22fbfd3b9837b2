// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/call.h>

#include <cohort/collectives/schedules/operators/reference.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace cohort {

void refuse_call(std::string text) { throw Error(ErrorKind::InvalidArgument, std::move(text)); }

namespace {

// What refuses stands apart: a small call that is right passes only the tests.

/// No memory is larger: above it is a count that fell below zero, or a product that did not fit. The product
/// with the most ranks that there are still fits a std::size_t.
constexpr std::size_t kMostBytes = (std::size_t{1} << 48) - 1;

[[noreturn, gnu::cold]] void refuse_size(Operator op, DataType type, std::size_t bytes) {
  if (bytes > kMostBytes)
    refuse_call(fmt::format("{} of {} bytes, more than any memory has; did the count fall below zero?",
                            to_string(op), bytes));
  refuse_call(
      fmt::format("{} of {} bytes, which is no whole number of {}", to_string(op), bytes, to_string(type)));
}

[[noreturn, gnu::cold]] void refuse_uneven(Operator op, std::size_t elements, std::size_t per_count,
                                           Rank ranks, std::string_view buffer) {
  const std::size_t padded = (elements + per_count - 1) / per_count * per_count;
  refuse_call(fmt::format(
      "{} of {} elements cannot be split evenly over {} ranks; pad the {} with {} neutral elements "
      "to {} on every rank",
      to_string(op), elements, ranks, buffer, padded - elements, padded));
}

[[noreturn, gnu::cold]] void refuse_combination(Operator op, DataType type, ReduceOp reduce) {
  if (type == DataType::byte)
    refuse_call(fmt::format("{} of bytes: they can be moved, not combined; give {}", to_string(op),
                            types_of(reduce)));
  refuse_call(fmt::format("{}: {} does not combine {}; give {}", to_string(op), to_string(reduce),
                          to_string(type), types_of(reduce)));
}

[[noreturn, gnu::cold]] void refuse_root(Operator op, Rank root, Rank ranks) {
  refuse_call(fmt::format("{} {} rank {}, but the ranks are 0 to {}", to_string(op),
                          op->has_one_buffer ? "from" : "with root", root, ranks - 1));
}

[[noreturn, gnu::cold]] void refuse_overlap(Operator op) {
  refuse_call(fmt::format("{}: input and output overlap{}", to_string(op),
                          op->has_in_place ? " in part; give the same place (in place) or separate memory"
                                           : ", but it is never done in place; give separate memory"));
}

[[noreturn, gnu::cold]] void refuse_factor(Operator op, DataType type, double factor) {
  refuse_call(
      fmt::format("{}: the factor {} of scaled_sum is no {}; give one that is, or combine another type",
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

/// Input and output that do not fit each other, in bytes or in elements of the program's. `unit` is the
/// extent of a count of one.
[[gnu::cold]] std::string size_advice(Operator op, const Extent& unit, std::size_t in, std::size_t out,
                                      std::size_t needed, Rank ranks, std::string_view things = "bytes") {
  const std::string_view name = to_string(op);
  if (unit.send == unit.recv)
    return fmt::format("{} with {} {} of input and {} of output; both have the same size", name, in, things,
                       out);
  const std::string_view from = unit.recv > unit.send ? "from each of" : "over";
  return fmt::format("{} of {} {} {} {} ranks needs {} {} of output, not {}", name, in, things, from, ranks,
                     needed, things, out);
}

[[noreturn, gnu::cold]] void refuse_sizes(const Call& call, const CallArguments& given) {
  refuse_call(fmt::format(
      "{} with counts that mean {} bytes of input and {} of output on this rank, but {} and {} are given",
      call.has_own_counts() ? kOperatorWithOwnCounts : to_string(call.op), call.send_bytes, call.recv_bytes,
      given.in.size(), given.out.size()));
}

void check_place(Operator op, std::string_view buffer, DataType type, const std::byte* place,
                 std::size_t bytes) {
  if (bytes == 0) return;
  if (place == nullptr)
    refuse_call(fmt::format("{}: the {} of {} bytes is null; give it memory, or no elements", to_string(op),
                            buffer, bytes));
  const std::size_t element = size_bytes(type);
  if (reinterpret_cast<std::uintptr_t>(place) % element == 0) return;
  refuse_call(
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

void refuse_unless_in_place(const Call& call, Rank rank, Rank ranks, std::size_t element) {
  const InPlace in_place = call.op->in_place(call.form(ranks), rank);
  const bool is_one = call.send + in_place.send_at * element == call.recv + in_place.recv_at * element;
  if (!is_one || !call.op->has_in_place) refuse_overlap(call.op);
}

/// The same memory or none in common.
inline void refuse_partial_overlap(const Call& call, Rank rank, Rank ranks, std::size_t element) {
  if (call.send_bytes == 0 || call.recv_bytes == 0) return;
  const bool apart = call.send + call.send_bytes <= call.recv || call.recv + call.recv_bytes <= call.send;
  if (!apart && !call.op->has_one_buffer) refuse_unless_in_place(call, rank, ranks, element);
}

Call begin_call(Operator op, const CallArguments& arguments, Rank ranks) {
  const OperatorInfo& info = op.info();
  Call call(op);
  if (info.has_root) {
    if (arguments.root >= ranks) [[unlikely]]
      refuse_root(op, arguments.root, ranks);
    call.root = arguments.root;
  }
  if (!info.has_data) return call;
  call.type = arguments.type;
  if (!info.combines) {
    if (arguments.is_split) call.root = Call::kSplit;
    return call;
  }
  if (!applies(arguments.reduce.op, arguments.type)) [[unlikely]]
    refuse_combination(op, arguments.type, arguments.reduce.op);
  call.reduce = arguments.reduce.op;
  if (arguments.reduce.op != ReduceOp::scaled_sum) [[likely]]
    return call;
  check_factor(op, arguments.type, arguments.reduce.factor);
  call.factor = arguments.reduce.factor;
  return call;
}

/// Of the rank that brings most.
std::size_t announced_bytes(const Call& call, Rank ranks) {
  if (call.counts.empty()) return call.message_bytes() * call.op.given_per_count(ranks);
  std::size_t most = 0;
  for (Rank rank = 0; rank < ranks; ++rank)
    most = std::max(most, call.op->extent(call.form(ranks), rank).send);
  return most * size_bytes(call.type);
}

/// All of them, and what they come to, no more than memory can be. `unit` is the extent of a count of one.
void take_counts(Call& call, const CallArguments& arguments, Rank rank, Rank ranks, const Extent& unit) {
  const std::span<const std::size_t> counts = arguments.counts;
  const std::size_t expected = how_many(call.op->counts, ranks);
  if (counts.size() != expected)
    refuse_call(fmt::format("{} over {} ranks with {} counts; give {}", to_string(call.op), ranks,
                            counts.size(), expected));
  const std::size_t most = kMostBytes / size_bytes(call.type);
  std::size_t sum = 0;
  for (const std::size_t count : counts) {
    call.count = std::max<std::size_t>(call.count, count);
    const bool is_too_much = count > most || sum + count > most;
    sum += count;
    if (is_too_much)
      refuse_call(fmt::format("{} of {} elements, more than any memory has; did a count fall below zero?",
                              to_string(call.op), std::max(count, sum)));
  }
  call.counts = counts;
  const Extent extent = call.op->extent(call.form(ranks), rank);
  call.send_bytes = extent.send * size_bytes(call.type);
  call.recv_bytes = extent.recv * size_bytes(call.type);
  call.announced_bytes = announced_bytes(call, ranks);
  const bool is_input_wrong = unit.send != 0 && call.send_bytes != arguments.in.size();
  if (is_input_wrong || (unit.recv != 0 && call.recv_bytes != arguments.out.size()))
    refuse_sizes(call, arguments);
}

/// What this rank gives to each, and gets of each.
void take_own_counts(Call& call, const CallArguments& arguments, Rank ranks) {
  const std::size_t most = kMostBytes / size_bytes(call.type);
  const auto sum_of = [&](std::span<const std::size_t> counts) {
    if (counts.size() != ranks)
      refuse_call(
          fmt::format("{} over {} ranks with {} counts of what this rank gives or gets; give {} of each",
                      kOperatorWithOwnCounts, ranks, counts.size(), ranks));
    std::size_t sum = 0;
    for (const std::size_t count : counts) {
      const bool is_too_much = count > most || sum + count > most;
      sum += count;
      if (is_too_much)
        refuse_call(fmt::format("{} of {} elements, more than any memory has; did a count fall below zero?",
                                kOperatorWithOwnCounts, std::max(count, sum)));
    }
    return sum * size_bytes(call.type);
  };
  call.send_bytes = sum_of(arguments.counts);
  call.recv_bytes = sum_of(arguments.recv_counts);
  call.counts = arguments.counts;
  call.recv_counts = arguments.recv_counts;
  if (call.send_bytes != arguments.in.size() || call.recv_bytes != arguments.out.size())
    refuse_sizes(call, arguments);
}

/// Where no counts are given: the one that the buffers mean.
inline void take_even(Call& call, const CallArguments& arguments, const Extent& unit, Rank ranks) {
  const OperatorInfo& info = call.op.info();
  const std::size_t element = size_bytes(arguments.type);
  const bool by_output = info.has_one_buffer || unit.send == 0;
  const std::size_t given = by_output ? arguments.out.size() : arguments.in.size();
  const std::size_t count =
      count_of(call.op, elements_of(call.op, arguments.type, given), by_output ? unit.recv : unit.send, ranks,
               by_output ? "output" : "input");
  const std::size_t send_bytes = count * unit.send * element;
  const std::size_t recv_bytes = count * unit.recv * element;
  call.count = count;
  call.send_bytes = send_bytes;
  call.recv_bytes = recv_bytes;
  call.announced_bytes = info.has_root ? announced_bytes(call, ranks) : send_bytes;
  if (unit.recv != 0 && recv_bytes != arguments.out.size()) [[unlikely]]
    refuse_call(size_advice(call.op, unit, arguments.in.size(), arguments.out.size(), recv_bytes, ranks));
}

/// Each of them is memory that the input does not overlap, unless it is this rank's own, in place.
void refuse_wrong_blocks(const Call& call, Rank rank) {
  for (std::size_t of = 0; of < call.blocks.size(); ++of) {
    const std::byte* const block = call.blocks[of];
    check_place(call.op, "output", call.type, block, call.send_bytes);
    const bool apart = call.send + call.send_bytes <= block || block + call.send_bytes <= call.send;
    const bool is_in_place = of == rank && block == call.send;
    if (!apart && !is_in_place) refuse_overlap(call.op);
  }
}

[[gnu::cold]] Call make_call_on_blocks(Operator op, const CallArguments& arguments, Rank rank, Rank ranks) {
  Call call = begin_call(op, arguments, ranks);
  if (op != operator_of<AllGather>)
    refuse_call(fmt::format("{} into blocks that lie apart: give it one piece of memory", to_string(op)));
  if (arguments.blocks.size() != ranks)
    refuse_call(fmt::format("{} over {} ranks into {} blocks; give {}", to_string(op), ranks,
                            arguments.blocks.size(), ranks));
  call.count = elements_of(op, arguments.type, arguments.in.size());
  call.send = const_cast<std::byte*>(arguments.in.data());
  call.send_bytes = call.announced_bytes = arguments.in.size();
  call.recv_bytes = ranks * call.send_bytes;
  if (call.send_bytes == 0) return call;
  call.blocks = arguments.blocks;
  check_place(op, "input", call.type, call.send, call.send_bytes);
  refuse_wrong_blocks(call, rank);
  return call;
}

}  // namespace

Call make_call(Operator op, const CallArguments& arguments, Rank rank, Rank ranks) {
  if (!arguments.blocks.empty()) [[unlikely]]
    return make_call_on_blocks(op, arguments, rank, ranks);
  const OperatorInfo& info = op.info();
  Call call = begin_call(op, arguments, ranks);
  if (!info.has_data) return call;
  const std::size_t element = size_bytes(arguments.type);
  // What a rank gives or gets nothing of, whatever the counts, is ignored.
  const Extent unit = info.extent({.count = 1, .ranks = ranks, .root = call.root}, rank);
  call.recv = arguments.out.data();
  call.send = info.has_one_buffer ? call.recv : const_cast<std::byte*>(arguments.in.data());
  if (arguments.counts.empty() && arguments.recv_counts.empty()) [[likely]]
    take_even(call, arguments, unit, ranks);
  else if (arguments.recv_counts.empty())
    take_counts(call, arguments, rank, ranks, unit);
  else
    take_own_counts(call, arguments, ranks);
  refuse_wrong_places(call, element);
  refuse_partial_overlap(call, rank, ranks, element);
  return call;
}

Call make_call_on_elements(Operator op, const CallArguments& arguments, std::size_t element_bytes, Rank rank,
                           Rank ranks) {
  (void)begin_call(op, arguments, ranks);  // its root is a rank
  (void)elements_of(op, arguments.type, arguments.in.size());
  const Extent unit = op->extent({.count = 1, .ranks = ranks, .root = arguments.root}, rank);
  const std::size_t in = arguments.in.size() / element_bytes;
  const std::size_t out = arguments.out.size() / element_bytes;
  const std::size_t needed = count_of(op, in, unit.send, ranks, "input") * unit.recv;
  if (unit.recv != 0 && out != needed) refuse_call(size_advice(op, unit, in, out, needed, ranks, "elements"));
  return make_call(op, arguments, rank, ranks);
}

Call make_call_of_size(Operator op, DataType type, std::size_t bytes, Rank ranks) {
  CallArguments arguments{.type = type};
  Call call = begin_call(op, arguments, ranks);
  if (!op->has_data) return call;
  const std::size_t elements = elements_of(op, type, bytes);
  const Extent unit = op->extent({.count = 1, .ranks = ranks}, 0);
  call.count =
      count_of(op, elements, op.elements_per_count(ranks), ranks, unit.recv > unit.send ? "output" : "input");
  call.send_bytes = call.message_bytes() * unit.send;
  call.recv_bytes = call.message_bytes() * unit.recv;
  call.announced_bytes = announced_bytes(call, ranks);
  return call;
}

}  // namespace cohort
