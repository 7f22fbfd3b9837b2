// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/typed_arguments.h>
#include <cohort/collectives/collective.h>
#include <cohort/collectives/function_collective.h>
#include <cohort/collectives/job/communicator_options.h>
#include <cohort/collectives/memory/buffer.h>
#include <cohort/collectives/memory/shared_buffer.h>
#include <cohort/collectives/tensor_collective.h>
#include <cohort/collectives/transfer.h>
#include <cohort/collectives/value_collective.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

class AlgorithmTable;
class CommunicatorCore;
class Engine;
struct Explanation;
struct Membership;
struct Reach;

/// A group of ranks and its collectives.
///
/// All ranks call the same collectives, with the same arguments, in the same order; several calls may be
/// awaited at once and run one after the other. Buffers hold integers of 8 to 64 bits or floats of 8 to 64
/// bits (docs/use/types.md); they belong to the call until it completes. In place: give the same memory
/// twice, or use the forms with one buffer. Wrong arguments of this rank alone throw InvalidArgument at the
/// call; everything that concerns other ranks is thrown when it is awaited. Threads: its engine's. Moves,
/// while no collective runs: what was moved from still has rank() and size(), its calls throw
/// InvalidArgument, and anything else asserts. Its end says goodbye to the other ranks.
class Communicator {
 public:
  /// Joins. Throws AuthFailed, WorldSize, DuplicateRank, MissingRanks, Mismatch, ...: see JoinOptions.
  static Task<Communicator> join(Engine& engine, CommunicatorOptions options);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) = delete;
  /// Hands what is left to the engine, which closes it; co_await close() to know when.
  ~Communicator();

  // Groups: communicators of some of these ranks, over the connections and segments that there are. Each has
  // an order of calls, an end and failures of its own; what fails in one fails no other, except that a dead
  // rank fails all that it is in. They may outlive this one, which ends for its peers at once, and serves its
  // groups until the last one ends.

  /// The group of those ranks that give the same colour, in the order of their keys, then of their ranks; no
  /// communicator for a negative colour. A collective: all ranks call it, in the order of their calls here.
  [[nodiscard]] Task<std::optional<Communicator>> split(int color, int key = 0);
  /// The group of these ranks, in this order, called by them only, with the same ranks and name; also when
  /// this communicator has failed, as long as none of them is gone. Groups that are made at once do not wait
  /// for each other. Throws InvalidArgument (ranks, or a name that is in use here), Mismatch, PeerDied,
  /// PeerAborted, ResourceLimit, or DeadlineExceeded after the communicator's time limit; the culprit is a
  /// rank of this communicator.
  [[nodiscard]] Task<Communicator> group(std::vector<Rank> ranks, std::string name);
  /// A group that this rank has made here by that name and that is open: another hold on the same. It closes
  /// when the last one ends.
  [[nodiscard]] std::optional<Communicator> find_group(std::string_view name) const;
  /// What that rank was called where its process joined; the same, unless this is a group.
  [[nodiscard]] Rank world_rank(Rank rank) const;

  /// Tells the others that this rank is done and releases everything. Collectives cannot be called
  /// afterwards. Throws, once that is done, what was wrong with the last collective, if this rank could not
  /// hear of it before: where it only gives, a collective may be over before the others have come.
  Task<> close();
  /// Gives up: every other rank gets PeerAborted with this reason.
  void abort(const std::string& reason) noexcept;

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] Rank size() const noexcept { return size_; }
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] Engine& engine() const noexcept;
  /// How this rank reaches its peers: "shm", "tcp", "shm+tcp".
  [[nodiscard]] const std::string& transport() const noexcept;
  [[nodiscard]] const Membership& membership() const noexcept;
  /// Whether collectives can still be called, and if not, why.
  [[nodiscard]] bool is_failed() const noexcept;
  [[nodiscard]] const Error& failure() const noexcept;

  /// Which algorithm runs such a call, and why; what is compared, and with what numbers. Nothing is
  /// exchanged.
  ///
  /// `bytes` is the largest buffer that a rank has: the vector of an all_reduce, the whole output of an
  /// all_gather, the whole input of a reduce_scatter; nothing for barrier. `forced` names an algorithm.
  /// What is combined is summed; by the communicator's determinism, unless another one is given. Throws
  /// InvalidArgument where the call would: for bytes that are no whole elements, the same number for each
  /// rank, and for a forced algorithm that cannot run here or does not give that determinism.
  /// <cohort/collectives/selection/explanation.h> has the result.
  [[nodiscard]] Explanation explain(Operator op, DataType type, std::size_t bytes,
                                    std::string_view forced = {},
                                    std::optional<Determinism> determinism = {}) const;
  /// Whether the algorithm that is selected for such a call takes CallArguments::blocks.
  [[nodiscard]] bool takes_blocks_apart(Operator op, DataType type, std::size_t bytes) const;
  /// How the ranks reach each other, with what was measured at joining.
  [[nodiscard]] const Reach& reach() const noexcept;
  /// The algorithms that can be asked for by name: the library's, and those of the options.
  [[nodiscard]] const AlgorithmTable& algorithms() const noexcept;

  /// Memory that peers on this host map already. Throws InvalidArgument for too large a count, ResourceLimit.
  template <class T>
  [[nodiscard]] SharedBuffer<T> allocate(std::size_t count) {
    return SharedBuffer<T>(heap("allocate"), count);
  }

  /// Registers memory that another allocator made: whole pages (4096 bytes) of ordinary, anonymous memory.
  /// They move into memory that peers map, at the same address and with their contents; nobody may write to
  /// them meanwhile, and children that fork later share them. Takes far longer than to copy it, so register
  /// once. Throws InvalidArgument, ResourceLimit.
  template <class T>
  [[nodiscard]] Registration register_buffer(std::span<T> buffer) {
    return Registration(heap("register_buffer"), std::as_writable_bytes(buffer));
  }

  /// Completes when every rank has called it.
  [[nodiscard]] Collective barrier();

  // Buffers are contiguous memory that outlives the call: a vector, array, span or SharedBuffer, const where
  // it is only read. What cannot be one does not compile; the error says what can.

  /// `data` of the root to everybody. Shape: count on every rank.
  template <class Data>
  [[nodiscard]] Collective broadcast(Data&& data, Rank root) {
    const detail::Output buffer = detail::output_of<Data>(data);
    return broadcast(buffer.type, buffer.bytes, root);
  }
  /// The same for elements of any trivially copyable type, or for one such value. Bytes are all that is
  /// compared: ranks that give types of equal size have to mean the same.
  template <class Data>
  [[nodiscard]] Collective broadcast_bytes(Data&& data, Rank root) {
    const detail::Output buffer = detail::output_bytes_of<Data>(data);
    return broadcast(buffer.type, buffer.bytes, root);
  }

  // Reductions are a ReduceOp, or scaled_sum(factor).

  /// out[i] = combination over ranks of in[i]. Shape: count -> count.
  template <class In, class Out>
  [[nodiscard]] Collective all_reduce(In&& in, Out&& out, Combination op) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return all_reduce(to.type, detail::input_of<In>(in).bytes, to.bytes, op);
  }
  template <class InOut>
  [[nodiscard]] Collective all_reduce(InOut&& inout, Combination op) {
    const detail::Output both = detail::output_of<InOut>(inout);
    return all_reduce(both.type, both.bytes, both.bytes, op);
  }

  /// out = every rank's `in`, by rank. Shape: count -> size() * count. In place: `in` is out's own block.
  template <class In, class Out>
  [[nodiscard]] Collective all_gather(In&& in, Out&& out) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return all_gather(to.type, detail::input_of<In>(in).bytes, to.bytes);
  }
  /// In place: every rank has filled its own block of `inout`.
  template <class InOut>
  [[nodiscard]] Collective all_gather(InOut&& inout) {
    const detail::Output both = detail::output_of<InOut>(inout);
    return all_gather_own_block(both, size_bytes(both.type));
  }
  /// The same for elements of any trivially copyable type; `in` may be one such value.
  template <class In, class Out>
  [[nodiscard]] Collective all_gather_bytes(In&& in, Out&& out) {
    const detail::Output to = detail::output_bytes_of<Out>(out);
    return all_gather(to.type, detail::input_bytes_of<In>(in).bytes, to.bytes);
  }
  template <class InOut>
  [[nodiscard]] Collective all_gather_bytes(InOut&& inout) {
    return all_gather_own_block(detail::output_bytes_of<InOut>(inout), sizeof(detail::Held<InOut>));
  }

  /// out = combination over ranks of block rank() of `in`. Shape: size() * count -> count.
  /// In place: `out` is in's own block.
  template <class In, class Out>
  [[nodiscard]] Collective reduce_scatter(In&& in, Out&& out, Combination op) {
    return call(operator_of<ReduceScatter>, detail::typed_arguments<In, Out>(in, out, op));
  }

  /// out[i] at the root = combination over ranks of in[i]. Shape: count -> count at the root; `out` of other
  /// ranks is ignored, and may be empty.
  template <class In, class Out>
  [[nodiscard]] Collective reduce(In&& in, Out&& out, Combination op, Rank root) {
    return call(operator_of<Reduce>, detail::typed_arguments<In, Out>(in, out, op, root));
  }
  /// In place: `inout` of the root becomes the result, that of other ranks is only read.
  template <class InOut>
  [[nodiscard]] Collective reduce(InOut&& inout, Combination op, Rank root) {
    return call(operator_of<Reduce>, detail::typed_arguments<InOut, InOut>(inout, inout, op, root));
  }

  /// out at the root = every rank's `in`, by rank. Shape: count -> size() * count at the root; `out` of other
  /// ranks is ignored, and may be empty. In place: `in` of the root is out's own block.
  template <class In, class Out>
  [[nodiscard]] Collective gather(In&& in, Out&& out, Rank root) {
    return call(operator_of<Gather>, detail::typed_arguments<In, Out>(in, out, ReduceOp::sum, root));
  }

  /// out = block rank() of the root's `in`. Shape: size() * count at the root -> count; `in` of other ranks
  /// is ignored, and may be empty. In place: `out` of the root is in's own block.
  template <class In, class Out>
  [[nodiscard]] Collective scatter(In&& in, Out&& out, Rank root) {
    return call(operator_of<Scatter>, detail::typed_arguments<In, Out>(in, out, ReduceOp::sum, root));
  }

  /// Block s of out = block rank() of rank s's `in`. Shape: size() * count -> size() * count; never in place.
  template <class In, class Out>
  [[nodiscard]] Collective all_to_all(In&& in, Out&& out) {
    return call(operator_of<AllToAll>, detail::typed_arguments<In, Out>(in, out));
  }

  // The same with blocks that differ. `counts` are the elements of each rank's block, the same on all ranks,
  // and outlive the call; blocks lie one behind the other.

  /// Shape: counts[rank()] -> sum of counts. In place: `in` is out's own block.
  template <class In, class Out, class Counts>
  [[nodiscard]] Collective all_gather_v(In&& in, Out&& out, Counts&& counts) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return all_gather_v(to.type, detail::input_of<In>(in).bytes, to.bytes, detail::counts_of<Counts>(counts));
  }
  /// Shape: sum of counts -> counts[rank()]. In place: `out` is in's own block.
  template <class In, class Out, class Counts>
  [[nodiscard]] Collective reduce_scatter_v(In&& in, Out&& out, Counts&& counts, Combination op) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return reduce_scatter_v(to.type, detail::input_of<In>(in).bytes, to.bytes,
                            detail::counts_of<Counts>(counts), op);
  }
  /// Shape: counts[rank()] -> sum of counts at the root. In place: `in` of the root is out's own block.
  template <class In, class Out, class Counts>
  [[nodiscard]] Collective gather_v(In&& in, Out&& out, Counts&& counts, Rank root) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return gather_v(to.type, detail::input_of<In>(in).bytes, to.bytes, detail::counts_of<Counts>(counts),
                    root);
  }
  /// Shape: sum of counts at the root -> counts[rank()]. In place: `out` of the root is in's own block.
  template <class In, class Out, class Counts>
  [[nodiscard]] Collective scatter_v(In&& in, Out&& out, Counts&& counts, Rank root) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return scatter_v(to.type, detail::input_of<In>(in).bytes, to.bytes, detail::counts_of<Counts>(counts),
                     root);
  }
  /// `matrix`[s * size() + r] elements go from rank s to rank r, the same matrix on all ranks. Shape: sum of
  /// the own row -> sum of the own column; never in place.
  template <class In, class Out, class Matrix>
  [[nodiscard]] Collective all_to_all_vc(In&& in, Out&& out, Matrix&& matrix) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return all_to_all_vc(to.type, detail::input_of<In>(in).bytes, to.bytes,
                         detail::counts_of<Matrix>(matrix));
  }

  /// The same where each rank knows only what it gives to each, and what it gets of each, which they tell
  /// each other first: use all_to_all_vc where all is known.
  template <class In, class SendCounts, class Out, class RecvCounts>
  [[nodiscard]] Collective all_to_all_v(In&& in, SendCounts&& send_counts, Out&& out,
                                        RecvCounts&& recv_counts) {
    detail::check_pair<In, Out>();
    const detail::Output to = detail::output_of<Out>(out);
    return all_to_all_v(to.type, detail::input_of<In>(in).bytes, detail::counts_of<SendCounts>(send_counts),
                        to.bytes, detail::counts_of<RecvCounts>(recv_counts));
  }

  /// out[i] = combination of in[i] of ranks 0 to rank(), in this order. Shape: count -> count. An average is
  /// over these ranks.
  template <class In, class Out>
  [[nodiscard]] Collective scan(In&& in, Out&& out, Combination op) {
    return call(operator_of<Scan>, detail::typed_arguments<In, Out>(in, out, op));
  }
  template <class InOut>
  [[nodiscard]] Collective scan(InOut&& inout, Combination op) {
    return call(operator_of<Scan>, detail::typed_arguments<InOut, InOut>(inout, inout, op));
  }
  /// The same of ranks 0 to rank() - 1; `out` of rank 0 stays as it is.
  template <class In, class Out>
  [[nodiscard]] Collective exclusive_scan(In&& in, Out&& out, Combination op) {
    return call(operator_of<ExclusiveScan>, detail::typed_arguments<In, Out>(in, out, op));
  }
  template <class InOut>
  [[nodiscard]] Collective exclusive_scan(InOut&& inout, Combination op) {
    return call(operator_of<ExclusiveScan>, detail::typed_arguments<InOut, InOut>(inout, inout, op));
  }

  // One value of each rank, an element as above: `const double sum = co_await comm.all_reduce(x, op);`. It is
  // copied, and what is awaited is the result; x stays as it is.

  template <detail::Value V>
  [[nodiscard]] ValueCollective<std::remove_cvref_t<V>> broadcast(V&& value, Rank root) {
    return call_on_value(operator_of<Broadcast>, value, value, ReduceOp::sum, root);
  }
  template <detail::Value V>
  [[nodiscard]] ValueCollective<std::remove_cvref_t<V>> all_reduce(V&& value, Combination op) {
    return call_on_value(operator_of<AllReduce>, value, value, op);
  }
  template <detail::Value V>
  [[nodiscard]] ValueCollective<std::remove_cvref_t<V>> scan(V&& value, Combination op) {
    return call_on_value(operator_of<Scan>, value, value, op);
  }
  /// Rank 0 gets zero.
  template <detail::Value V>
  [[nodiscard]] ValueCollective<std::remove_cvref_t<V>> exclusive_scan(V&& value, Combination op) {
    return call_on_value(operator_of<ExclusiveScan>, value, std::remove_cvref_t<V>(), op);
  }

  // Several tensors in one call: lists, a vector, array or span each, of buffers as above. They have one type
  // and any sizes, the same on all ranks; small ones travel together. Each is treated as by a call of its
  // own, and overlaps no other that is written to. What gets results may be given alone: then in place. The
  // lists, and not only what they name, outlive the call.

  template <detail::Tensors List>
  [[nodiscard]] TensorCollective broadcast(List&& tensors, Rank root) {
    return call_on_tensors(operator_of<Broadcast>,
                           {.out = detail::output_tensors_of<List>(tensors), .root = root});
  }
  template <detail::Tensors In, detail::Tensors Out>
  [[nodiscard]] TensorCollective all_reduce(In&& in, Out&& out, Combination op) {
    return call_on_tensors(operator_of<AllReduce>, detail::tensor_arguments<In, Out>(in, out, op));
  }
  template <detail::Tensors InOut>
  [[nodiscard]] TensorCollective all_reduce(InOut&& inout, Combination op) {
    return call_on_tensors(operator_of<AllReduce>, detail::tensor_arguments<InOut, InOut>(inout, inout, op));
  }
  template <detail::Tensors In, detail::Tensors Out>
  [[nodiscard]] TensorCollective reduce(In&& in, Out&& out, Combination op, Rank root) {
    return call_on_tensors(operator_of<Reduce>, detail::tensor_arguments<In, Out>(in, out, op, root));
  }
  template <detail::Tensors InOut>
  [[nodiscard]] TensorCollective reduce(InOut&& inout, Combination op, Rank root) {
    return call_on_tensors(operator_of<Reduce>,
                           detail::tensor_arguments<InOut, InOut>(inout, inout, op, root));
  }
  template <detail::Tensors In, detail::Tensors Out>
  [[nodiscard]] TensorCollective reduce_scatter(In&& in, Out&& out, Combination op) {
    return call_on_tensors(operator_of<ReduceScatter>, detail::tensor_arguments<In, Out>(in, out, op));
  }
  template <detail::Tensors In, detail::Tensors Out>
  [[nodiscard]] TensorCollective all_gather(In&& in, Out&& out) {
    return call_on_tensors(operator_of<AllGather>, detail::tensor_arguments<In, Out>(in, out));
  }
  template <detail::Tensors InOut>
  [[nodiscard]] TensorCollective all_gather(InOut&& inout) {
    const TensorArguments arguments{.out = detail::output_tensors_of<InOut>(inout), .is_own_block = true};
    return call_on_tensors(operator_of<AllGather>, arguments);
  }

  // The same by a function of the program's, on elements of any trivially copyable type: reduction<T>(f).

  template <class In, class Out, class T>
  [[nodiscard]] FunctionCollective all_reduce(In&& in, Out&& out, FunctionReduction<T> op) {
    return call_by(operator_of<AllReduce>, detail::own_arguments<T, In, Out>(in, out), op);
  }
  /// One value, as above.
  template <class V, class T>
  requires std::same_as<std::remove_cvref_t<V>, T>
  [[nodiscard]] ValueCollective<T, FunctionCall> all_reduce(V&& value, FunctionReduction<T> op) {
    T before = value;
    return {call_by(operator_of<AllReduce>, detail::own_value_arguments<T>(value, before), op), value,
            before};
  }
  template <class InOut, class T>
  [[nodiscard]] FunctionCollective all_reduce(InOut&& inout, FunctionReduction<T> op) {
    return call_by(operator_of<AllReduce>, detail::own_arguments<T, InOut, InOut>(inout, inout), op);
  }
  template <class In, class Out, class T>
  [[nodiscard]] FunctionCollective reduce(In&& in, Out&& out, FunctionReduction<T> op, Rank root) {
    return call_by(operator_of<Reduce>, detail::own_arguments<T, In, Out>(in, out, root), op);
  }
  template <class InOut, class T>
  [[nodiscard]] FunctionCollective reduce(InOut&& inout, FunctionReduction<T> op, Rank root) {
    return call_by(operator_of<Reduce>, detail::own_arguments<T, InOut, InOut>(inout, inout, root), op);
  }
  template <class In, class Out, class T>
  [[nodiscard]] FunctionCollective reduce_scatter(In&& in, Out&& out, FunctionReduction<T> op) {
    return call_by(operator_of<ReduceScatter>, detail::own_arguments<T, In, Out>(in, out), op);
  }
  template <class In, class Out, class T>
  [[nodiscard]] FunctionCollective scan(In&& in, Out&& out, FunctionReduction<T> op) {
    return call_by(operator_of<Scan>, detail::own_arguments<T, In, Out>(in, out), op);
  }
  template <class InOut, class T>
  [[nodiscard]] FunctionCollective scan(InOut&& inout, FunctionReduction<T> op) {
    return call_by(operator_of<Scan>, detail::own_arguments<T, InOut, InOut>(inout, inout), op);
  }
  template <class In, class Out, class T>
  [[nodiscard]] FunctionCollective exclusive_scan(In&& in, Out&& out, FunctionReduction<T> op) {
    return call_by(operator_of<ExclusiveScan>, detail::own_arguments<T, In, Out>(in, out), op);
  }
  template <class InOut, class T>
  [[nodiscard]] FunctionCollective exclusive_scan(InOut&& inout, FunctionReduction<T> op) {
    return call_by(operator_of<ExclusiveScan>, detail::own_arguments<T, InOut, InOut>(inout, inout), op);
  }

  // Messages between two ranks, matched by tag in the order in which they are awaited; any number at once,
  // beside collectives. Sizes have to be equal: others fail the communicator, on both ends.

  /// `data` to that rank, whose recv() takes it. Over when `data` may be reused, which for small ones is
  /// before they are received.
  template <class Data>
  [[nodiscard]] Transfer<void> send(Data&& data, Rank to, std::int32_t tag = 0) {
    return send_bytes(detail::input_bytes_of<Data>(data).bytes, to, tag);
  }
  template <class Data>
  [[nodiscard]] Transfer<void> recv(Data&& data, Rank from, std::int32_t tag = 0) {
    return recv_bytes(detail::output_bytes_of<Data>(data).bytes, from, tag);
  }
  /// From whoever sends with that tag first: who that was.
  template <class Data>
  [[nodiscard]] Transfer<Rank> recv_any(Data&& data, std::int32_t tag = 0) {
    return recv_any_bytes(detail::output_bytes_of<Data>(data).bytes, tag);
  }

  // The same with types known at run time only:
  [[nodiscard]] Collective broadcast(DataType type, std::span<std::byte> data, Rank root);
  [[nodiscard]] Collective all_reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                      Combination op);
  [[nodiscard]] Collective all_gather(DataType type, std::span<const std::byte> in, std::span<std::byte> out);
  [[nodiscard]] Collective reduce_scatter(DataType type, std::span<const std::byte> in,
                                          std::span<std::byte> out, Combination op);
  [[nodiscard]] Collective reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                  Combination op, Rank root);
  [[nodiscard]] Collective gather(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                  Rank root);
  [[nodiscard]] Collective scatter(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                   Rank root);
  [[nodiscard]] Collective all_to_all(DataType type, std::span<const std::byte> in, std::span<std::byte> out);
  [[nodiscard]] Collective all_gather_v(DataType type, std::span<const std::byte> in,
                                        std::span<std::byte> out, std::span<const std::size_t> counts);
  [[nodiscard]] Collective reduce_scatter_v(DataType type, std::span<const std::byte> in,
                                            std::span<std::byte> out, std::span<const std::size_t> counts,
                                            Combination op);
  [[nodiscard]] Collective gather_v(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                    std::span<const std::size_t> counts, Rank root);
  [[nodiscard]] Collective scatter_v(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                     std::span<const std::size_t> counts, Rank root);
  [[nodiscard]] Collective all_to_all_vc(DataType type, std::span<const std::byte> in,
                                         std::span<std::byte> out, std::span<const std::size_t> matrix);
  [[nodiscard]] Collective all_to_all_v(DataType type, std::span<const std::byte> in,
                                        std::span<const std::size_t> send_counts, std::span<std::byte> out,
                                        std::span<const std::size_t> recv_counts);
  [[nodiscard]] Collective scan(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                Combination op);
  [[nodiscard]] Collective exclusive_scan(DataType type, std::span<const std::byte> in,
                                          std::span<std::byte> out, Combination op);
  /// Any operator, with what applies of the arguments.
  [[nodiscard]] Collective call(Operator op, const CallArguments& arguments);
  /// One that combines, by a function. Buffers are bytes of DataType::uint8; what the call names outlives it.
  [[nodiscard]] FunctionCollective call_by_function(const FunctionCall& call);
  /// Any of those that take several tensors.
  [[nodiscard]] TensorCollective call_on_tensors(Operator op, const TensorArguments& arguments);
  /// Any message, of this rank to itself too; or waits for one, as a probe.
  [[nodiscard]] Transfer<Envelope> call_message(const MessageRequest& request);
  /// What a probe finds now of what was read. Throws why the communicator has failed, if it has.
  [[nodiscard]] std::optional<Envelope> look_now(const MessageRequest& probe);

 private:
  template <class T>
  [[nodiscard]] ValueCollective<T> call_on_value(Operator op, T in, T before, Combination reduce,
                                                 Rank root = 0) {
    const CallArguments arguments = detail::value_arguments(in, before, reduce, root);
    return {call(op, arguments), in, before};
  }
  template <class T>
  [[nodiscard]] FunctionCollective call_by(Operator op, const CallArguments& of, FunctionReduction<T> by) {
    return call_by_function({.op = op, .arguments = of, .function = by.function});
  }
  /// Shares a hold; the end of the last one closes.
  explicit Communicator(std::shared_ptr<CommunicatorCore> handle) noexcept;
  static std::shared_ptr<CommunicatorCore> handle_of(std::shared_ptr<CommunicatorCore> core);
  static Task<std::optional<Communicator>> make_split(std::shared_ptr<CommunicatorCore>, int color, int key);
  static Task<Communicator> make_group(std::shared_ptr<CommunicatorCore> parent, std::vector<Rank> ranks,
                                       std::string name);
  static Task<Communicator> open(Communicator communicator, std::shared_ptr<CommunicatorCore> parent);
  [[nodiscard]] Transfer<void> send_bytes(std::span<const std::byte> data, Rank to, std::int32_t tag);
  [[nodiscard]] Transfer<void> recv_bytes(std::span<std::byte> data, Rank from, std::int32_t tag);
  [[nodiscard]] Transfer<Rank> recv_any_bytes(std::span<std::byte> data, std::int32_t tag);
  [[nodiscard]] Collective all_gather_own_block(detail::Output inout, std::size_t element_bytes);
  /// The same with counts, which are no longer optional.
  [[nodiscard]] Collective call_with_counts(Operator op, const CallArguments& arguments);
  /// Throws InvalidArgument for what was moved from.
  [[nodiscard]] CommunicatorCore& core_for(std::string_view call) const;
  /// The same for what cannot throw: asserts.
  [[nodiscard]] CommunicatorCore& core() const noexcept;
  [[nodiscard]] const std::shared_ptr<SharedHeap>& heap(std::string_view call) const;

  std::shared_ptr<CommunicatorCore> core_;
  Rank rank_ = 0;
  Rank size_ = 1;
};

}  // namespace cohort
