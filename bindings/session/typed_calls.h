// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/call.h>

#include <span>
#include <type_traits>
#include <vector>

namespace cohort::bindings {

[[nodiscard]] inline std::vector<std::span<std::byte>> spans_of(const TensorList& list) {
  std::vector<std::span<std::byte>> spans;
  spans.reserve(list.size);
  for (std::size_t i = 0; i < list.size; ++i) spans.push_back(list[i]);
  return spans;
}

/// A collective of Op on buffers as Communicator takes them, with the type of their elements, for what takes
/// an AnyCall: `call_of<AllReduce>(data, data)`.
template <class Op, class In, class Out>
[[nodiscard]] CollectiveCall call_of(In&& in, Out&& out, Combination op = ReduceOp::sum, Rank root = 0) {
  return {operator_of<Op>, detail::typed_arguments<In, Out>(in, out, op, root)};
}

/// The same of lists of buffers; with one list in place.
template <class Op, detail::Tensors InOut>
[[nodiscard]] TensorsCall tensors_call_of(InOut&& inout, Combination op = ReduceOp::sum, Rank root = 0) {
  return {.op = operator_of<Op>,
          .type = detail::output_tensors_of<InOut>(inout).type,
          .out = spans_of(detail::output_tensors_of<InOut>(inout)),
          .reduce = op,
          .root = root};
}
template <class Op, detail::Tensors In, detail::Tensors Out>
[[nodiscard]] TensorsCall tensors_call_of(In&& in, Out&& out, Combination op = ReduceOp::sum, Rank root = 0) {
  detail::check_pair<detail::Tensor<In>, detail::Tensor<Out>>();
  TensorsCall call = tensors_call_of<Op, Out>(out, op, root);
  call.in = spans_of(detail::input_tensors_of<In>(in));
  return call;
}

/// The collectives and messages of Communicator for a thread that waits for each: same names, same shapes, on
/// vectors, arrays, spans and lists of them, or on one value, of which they return the result.
///
/// Self has call(AnyCall, CallSettings), which says what they throw. Reductions by a function of the
/// program's are Communicator's only.
template <class Self>
class TypedCalls {
 public:
  void barrier(const CallSettings& settings = {}) { make(CollectiveCall{operator_of<Barrier>}, settings); }

  template <class Data>
  void broadcast(Data&& data, Rank root, const CallSettings& settings = {}) {
    const detail::Output to = detail::output_of<Data>(data);
    make(CollectiveCall{operator_of<Broadcast>, {.type = to.type, .root = root, .out = to.bytes}}, settings);
  }
  template <class Data>
  void broadcast_bytes(Data&& data, Rank root, const CallSettings& settings = {}) {
    const detail::Output to = detail::output_bytes_of<Data>(data);
    make(CollectiveCall{operator_of<Broadcast>, {.type = to.type, .root = root, .out = to.bytes}}, settings);
  }
  template <class In, class Out>
  void all_reduce(In&& in, Out&& out, Combination op, const CallSettings& settings = {}) {
    make(call_of<AllReduce>(in, out, op), settings);
  }
  template <class InOut>
  void all_reduce(InOut&& inout, Combination op, const CallSettings& settings = {}) {
    make(call_of<AllReduce>(inout, inout, op), settings);
  }
  template <class In, class Out>
  void reduce(In&& in, Out&& out, Combination op, Rank root, const CallSettings& settings = {}) {
    make(call_of<Reduce>(in, out, op, root), settings);
  }
  template <class InOut>
  void reduce(InOut&& inout, Combination op, Rank root, const CallSettings& settings = {}) {
    make(call_of<Reduce>(inout, inout, op, root), settings);
  }
  template <class In, class Out>
  void reduce_scatter(In&& in, Out&& out, Combination op, const CallSettings& settings = {}) {
    make(call_of<ReduceScatter>(in, out, op), settings);
  }
  template <class In, class Out>
  void scan(In&& in, Out&& out, Combination op, const CallSettings& settings = {}) {
    make(call_of<Scan>(in, out, op), settings);
  }
  template <class In, class Out>
  void exclusive_scan(In&& in, Out&& out, Combination op, const CallSettings& settings = {}) {
    make(call_of<ExclusiveScan>(in, out, op), settings);
  }
  template <class In, class Out>
  void all_gather(In&& in, Out&& out, const CallSettings& settings = {}) {
    make(call_of<AllGather>(in, out), settings);
  }
  template <class In, class Out>
  void all_gather_bytes(In&& in, Out&& out, const CallSettings& settings = {}) {
    const detail::Output to = detail::output_bytes_of<Out>(out);
    const CallArguments arguments{
        .type = to.type, .in = detail::input_bytes_of<In>(in).bytes, .out = to.bytes};
    make(CollectiveCall{operator_of<AllGather>, arguments}, settings);
  }
  template <class In, class Out>
  void gather(In&& in, Out&& out, Rank root, const CallSettings& settings = {}) {
    make(call_of<Gather>(in, out, ReduceOp::sum, root), settings);
  }
  template <class In, class Out>
  void scatter(In&& in, Out&& out, Rank root, const CallSettings& settings = {}) {
    make(call_of<Scatter>(in, out, ReduceOp::sum, root), settings);
  }
  template <class In, class Out>
  void all_to_all(In&& in, Out&& out, const CallSettings& settings = {}) {
    make(call_of<AllToAll>(in, out), settings);
  }

  template <class In, class Out, class Counts>
  void all_gather_v(In&& in, Out&& out, Counts&& counts, const CallSettings& settings = {}) {
    with_counts(call_of<AllGatherV>(in, out), detail::counts_of<Counts>(counts), settings);
  }
  template <class In, class Out, class Counts>
  void reduce_scatter_v(In&& in, Out&& out, Counts&& counts, Combination op,
                        const CallSettings& settings = {}) {
    with_counts(call_of<ReduceScatterV>(in, out, op), detail::counts_of<Counts>(counts), settings);
  }
  template <class In, class Out, class Counts>
  void gather_v(In&& in, Out&& out, Counts&& counts, Rank root, const CallSettings& settings = {}) {
    with_counts(call_of<GatherV>(in, out, ReduceOp::sum, root), detail::counts_of<Counts>(counts), settings);
  }
  template <class In, class Out, class Counts>
  void scatter_v(In&& in, Out&& out, Counts&& counts, Rank root, const CallSettings& settings = {}) {
    with_counts(call_of<ScatterV>(in, out, ReduceOp::sum, root), detail::counts_of<Counts>(counts), settings);
  }
  template <class In, class Out, class Matrix>
  void all_to_all_vc(In&& in, Out&& out, Matrix&& matrix, const CallSettings& settings = {}) {
    with_counts(call_of<AllToAllVc>(in, out), detail::counts_of<Matrix>(matrix), settings);
  }
  template <class In, class SendCounts, class Out, class RecvCounts>
  void all_to_all_v(In&& in, SendCounts&& send_counts, Out&& out, RecvCounts&& recv_counts,
                    const CallSettings& settings = {}) {
    CollectiveCall call = call_of<AllToAllVc>(in, out);
    call.arguments.counts = detail::counts_of<SendCounts>(send_counts);
    call.arguments.recv_counts = detail::counts_of<RecvCounts>(recv_counts);
    call.counts = CollectiveCall::Counts::of_rank;
    make(call, settings);
  }

  // One value of each rank: the result.

  template <detail::Value V>
  std::remove_cvref_t<V> broadcast(V&& value, Rank root, const CallSettings& settings = {}) {
    std::remove_cvref_t<V> result = value;
    broadcast(std::span(&result, 1), root, settings);
    return result;
  }
  template <detail::Value V>
  [[nodiscard]] std::remove_cvref_t<V> all_reduce(V&& value, Combination op,
                                                  const CallSettings& settings = {}) {
    std::remove_cvref_t<V> result = value;
    all_reduce(std::span(&result, 1), op, settings);
    return result;
  }

  // Lists of buffers.

  template <detail::Tensors List>
  void broadcast(List&& tensors, Rank root, const CallSettings& settings = {}) {
    make(tensors_call_of<Broadcast>(tensors, ReduceOp::sum, root), settings);
  }
  template <detail::Tensors In, detail::Tensors Out>
  void all_reduce(In&& in, Out&& out, Combination op, const CallSettings& settings = {}) {
    make(tensors_call_of<AllReduce>(in, out, op), settings);
  }
  template <detail::Tensors InOut>
  void all_reduce(InOut&& inout, Combination op, const CallSettings& settings = {}) {
    make(tensors_call_of<AllReduce>(inout, op), settings);
  }
  template <detail::Tensors In, detail::Tensors Out>
  void reduce(In&& in, Out&& out, Combination op, Rank root, const CallSettings& settings = {}) {
    make(tensors_call_of<Reduce>(in, out, op, root), settings);
  }
  template <detail::Tensors InOut>
  void reduce(InOut&& inout, Combination op, Rank root, const CallSettings& settings = {}) {
    make(tensors_call_of<Reduce>(inout, op, root), settings);
  }
  template <detail::Tensors In, detail::Tensors Out>
  void reduce_scatter(In&& in, Out&& out, Combination op, const CallSettings& settings = {}) {
    make(tensors_call_of<ReduceScatter>(in, out, op), settings);
  }
  template <detail::Tensors In, detail::Tensors Out>
  void all_gather(In&& in, Out&& out, const CallSettings& settings = {}) {
    make(tensors_call_of<AllGather>(in, out), settings);
  }

  // Messages.

  template <class Data>
  void send(Data&& data, Rank to, std::int32_t tag = 0, const CallSettings& settings = {}) {
    const std::span<const std::byte> bytes = detail::input_bytes_of<Data>(data).bytes;
    const std::span<std::byte> only_read(const_cast<std::byte*>(bytes.data()), bytes.size());
    make(MessageCall{MessageCall::Direction::send, to, tag, only_read}, settings);
  }
  template <class Data>
  void recv(Data&& data, Rank from, std::int32_t tag = 0, const CallSettings& settings = {}) {
    const std::span<std::byte> bytes = detail::output_bytes_of<Data>(data).bytes;
    make(MessageCall{MessageCall::Direction::recv, from, tag, bytes}, settings);
  }
  /// Who it was from.
  template <class Data>
  Rank recv_any(Data&& data, std::int32_t tag = 0, const CallSettings& settings = {}) {
    const std::span<std::byte> bytes = detail::output_bytes_of<Data>(data).bytes;
    return make(MessageCall{MessageCall::Direction::recv_any, 0, tag, bytes}, settings);
  }

 private:
  friend Self;
  TypedCalls() = default;
  ~TypedCalls() = default;

  Rank make(const AnyCall& call, const CallSettings& settings) {
    return static_cast<Self*>(this)->call(call, settings);
  }
  void with_counts(CollectiveCall call, std::span<const std::size_t> counts, const CallSettings& settings) {
    call.arguments.counts = counts;
    call.counts = CollectiveCall::Counts::needed;
    make(call, settings);
  }
};

}  // namespace cohort::bindings
