// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/call.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <bit>

namespace cohort {
namespace {

[[noreturn]] void refuse(std::string text) { throw Error(ErrorKind::InvalidArgument, std::move(text)); }

std::size_t elements_of(Operator op, DataType type, std::size_t bytes) {
  const std::size_t element = size_bytes(type);
  if ((bytes & (element - 1)) != 0)
    refuse(
        fmt::format("{} of {} bytes, which is no whole number of {}", to_string(op), bytes, to_string(type)));
  return bytes >> std::countr_zero(element);
}

/// Elements over those of a count of one.
std::size_t count_of(Operator op, std::size_t elements, std::size_t per_count, Rank ranks,
                     std::string_view buffer) {
  if (per_count == 1) return elements;  // nearly always, and no division
  if (elements % per_count == 0) return elements / per_count;
  const std::size_t padded = (elements + per_count - 1) / per_count * per_count;
  refuse(fmt::format(
      "{} of {} elements cannot be split evenly over {} ranks; pad the {} with {} neutral elements "
      "to {} on every rank",
      to_string(op), elements, ranks, buffer, padded - elements, padded));
}

/// Both buffers hold as many elements for a count of one.
std::string size_advice(Operator op, const Extent& extent, std::size_t in, std::size_t out, Rank ranks,
                        std::size_t element) {
  if (extent.send == extent.recv)
    return fmt::format("{} with {} bytes of input and {} of output; both have the same size", to_string(op),
                       in, out);
  if (extent.recv > extent.send)
    return fmt::format("{} of {} bytes from each of {} ranks needs {} bytes of output, not {}", to_string(op),
                       in, ranks, in * extent.recv, out);
  return fmt::format("{} of {} bytes over {} ranks needs {} bytes of output, not {}", to_string(op), in,
                     ranks, in / element / extent.send * extent.recv * element, out);
}

/// The same memory or none in common.
void refuse_partial_overlap(Operator op, const Call& call, Rank rank, std::size_t element) {
  if (call.send_bytes == 0 || call.recv_bytes == 0) return;
  const bool apart = call.send + call.send_bytes <= call.recv || call.recv + call.recv_bytes <= call.send;
  if (apart || call.op->has_one_buffer) return;
  const InPlace in_place = op->in_place(call.count, rank);
  if (call.send + in_place.send_at * element != call.recv + in_place.recv_at * element)
    refuse(
        fmt::format("{}: input and output overlap in part; give the same place (in place) or separate memory",
                    to_string(op)));
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
  if (op->combines) call.reduce = arguments.reduce;
  return call;
}

}  // namespace

Call make_call(Operator op, const CallArguments& arguments, Rank rank, Rank ranks) {
  Call call = begin_call(op, arguments, ranks);
  if (!op->has_data) return call;
  const std::size_t element = size_bytes(call.type);
  const Extent extent = op->extent(ranks, call.root, rank);
  call.recv = arguments.out.data();
  call.send = op->has_one_buffer ? call.recv : const_cast<std::byte*>(arguments.in.data());
  if (op->has_one_buffer) {
    call.count = elements_of(op, call.type, arguments.out.size());
  } else if (extent.send != 0) {
    const std::size_t elements = elements_of(op, call.type, arguments.in.size());
    call.count = count_of(op, elements, extent.send, ranks, "input");
  } else {
    const std::size_t elements = elements_of(op, call.type, arguments.out.size());
    call.count = count_of(op, elements, extent.recv, ranks, "output");
  }
  call.send_bytes = call.count * extent.send * element;
  call.recv_bytes = call.count * extent.recv * element;
  if (extent.recv != 0 && call.recv_bytes != arguments.out.size())
    refuse(size_advice(op, extent, arguments.in.size(), arguments.out.size(), ranks, element));
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
  return call;
}

}  // namespace cohort
