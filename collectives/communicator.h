// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/collective.h>
#include <cohort/collectives/communicator_options.h>
#include <cohort/collectives/shared_buffer.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

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
/// awaited at once and run one after the other. Buffers are spans of float, double, int32_t or int64_t; they
/// belong to the call until it completes. In place: give the same memory twice, or use the forms with one
/// span. Wrong arguments of this rank alone throw InvalidArgument at the call; everything that concerns other
/// ranks is thrown when it is awaited. Threads: its engine's. Moves, while no collective runs. Its end says
/// goodbye to the other ranks.
class Communicator {
 public:
  /// Joins. Throws AuthFailed, WorldSize, DuplicateRank, MissingRanks, Mismatch, ...: see JoinOptions.
  static Task<Communicator> join(Engine& engine, CommunicatorOptions options);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) = delete;
  /// Hands what is left to the engine, which closes it; co_await close() to know when.
  ~Communicator();

  /// Tells the others that this rank is done and releases everything. Collectives cannot be called
  /// afterwards.
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
  /// Throws InvalidArgument where the call would: for bytes that are no whole elements, the same number for
  /// each rank, and for a forced algorithm that cannot run here. <cohort/collectives/selection/explanation.h>
  /// has the result.
  [[nodiscard]] Explanation explain(Operator op, DataType type, std::size_t bytes,
                                    std::string_view forced = {}) const;
  /// How the ranks reach each other, with what was measured at joining: the numbers that choices rest on.
  [[nodiscard]] const Reach& reach() const noexcept;
  /// The algorithms that can be asked for by name: the library's, and those of the options.
  [[nodiscard]] const AlgorithmTable& algorithms() const noexcept;

  /// Memory that peers on this host map already; over other transports ordinary to them. Throws
  /// ResourceLimit.
  template <Element T>
  [[nodiscard]] SharedBuffer<T> allocate(std::size_t count) {
    return SharedBuffer<T>(heap(), count);
  }

  /// Registers memory that another allocator made: whole pages (4096 bytes) of ordinary, anonymous memory.
  /// They move into memory that peers map, at the same address and with their contents; nobody may write to
  /// them meanwhile, and children that fork later share them. Takes a few milliseconds per 2 MiB, so register
  /// once. Throws InvalidArgument, ResourceLimit.
  template <Element T>
  [[nodiscard]] Registration register_buffer(std::span<T> buffer) {
    return Registration(heap(), std::as_writable_bytes(buffer));
  }

  /// Completes when every rank has called it.
  [[nodiscard]] Collective barrier();

  /// `data` of the root to everybody. Shape: count on every rank.
  template <Element T>
  [[nodiscard]] Collective broadcast(std::span<T> data, Rank root) {
    return broadcast(data_type_of<T>(), std::as_writable_bytes(data), root);
  }

  /// out[i] = combination over ranks of in[i]. Shape: count -> count.
  template <Element T>
  [[nodiscard]] Collective all_reduce(std::span<const T> in, std::span<T> out, ReduceOp op) {
    return all_reduce(data_type_of<T>(), std::as_bytes(in), std::as_writable_bytes(out), op);
  }
  template <Element T>
  [[nodiscard]] Collective all_reduce(std::span<T> inout, ReduceOp op) {
    return all_reduce(std::span<const T>(inout), inout, op);
  }

  /// out = every rank's `in`, by rank. Shape: count -> size() * count. In place: `in` is out's own block.
  template <Element T>
  [[nodiscard]] Collective all_gather(std::span<const T> in, std::span<T> out) {
    return all_gather(data_type_of<T>(), std::as_bytes(in), std::as_writable_bytes(out));
  }
  /// In place: every rank has filled its own block of `inout`.
  template <Element T>
  [[nodiscard]] Collective all_gather(std::span<T> inout) {
    const std::size_t count = inout.size() / size();
    return all_gather(std::span<const T>(inout).subspan(rank() * count, count), inout);
  }

  /// out = combination over ranks of block rank() of `in`. Shape: size() * count -> count.
  /// In place: `out` is in's own block.
  template <Element T>
  [[nodiscard]] Collective reduce_scatter(std::span<const T> in, std::span<T> out, ReduceOp op) {
    return reduce_scatter(data_type_of<T>(), std::as_bytes(in), std::as_writable_bytes(out), op);
  }

  /// out[i] at the root = combination over ranks of in[i]. Shape: count -> count at the root; `out` of other
  /// ranks is ignored, and may be empty.
  template <Element T>
  [[nodiscard]] Collective reduce(std::span<const T> in, std::span<T> out, ReduceOp op, Rank root) {
    return reduce(data_type_of<T>(), std::as_bytes(in), std::as_writable_bytes(out), op, root);
  }
  /// In place: `inout` of the root becomes the result, that of other ranks is only read.
  template <Element T>
  [[nodiscard]] Collective reduce(std::span<T> inout, ReduceOp op, Rank root) {
    return reduce(std::span<const T>(inout), inout, op, root);
  }

  // The same with types known at run time only:
  [[nodiscard]] Collective broadcast(DataType type, std::span<std::byte> data, Rank root);
  [[nodiscard]] Collective all_reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                      ReduceOp op);
  [[nodiscard]] Collective all_gather(DataType type, std::span<const std::byte> in, std::span<std::byte> out);
  [[nodiscard]] Collective reduce_scatter(DataType type, std::span<const std::byte> in,
                                          std::span<std::byte> out, ReduceOp op);
  [[nodiscard]] Collective reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                  ReduceOp op, Rank root);
  /// Any operator, with what applies of the arguments.
  [[nodiscard]] Collective call(Operator op, const CallArguments& arguments);

 private:
  explicit Communicator(std::unique_ptr<CommunicatorCore> core) noexcept;
  [[nodiscard]] SharedHeap& heap() const noexcept;

  std::unique_ptr<CommunicatorCore> core_;
  Rank rank_ = 0;
  Rank size_ = 1;
};

}  // namespace cohort
