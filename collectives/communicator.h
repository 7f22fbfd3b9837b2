// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/collective.h>

#include <memory>
#include <span>

namespace cohort {

/// A buffer that peers on this host map: collectives on it copy nothing twice. Page-aligned, zero at first
/// use, then recycled with whatever it holds. Lifetime: ends before its communicator does.
template <Element T>
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(SharedHeap& heap, std::size_t count)
      : heap_(&heap), data_(reinterpret_cast<T*>(heap.allocate(count * sizeof(T)))), count_(count) {}
  SharedBuffer(SharedBuffer&& other) noexcept
      : heap_(other.heap_),
        data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    std::swap(heap_, other.heap_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~SharedBuffer() {
    if (data_ != nullptr) heap_->release(reinterpret_cast<std::byte*>(data_));
  }

  [[nodiscard]] std::span<T> span() const noexcept { return {data_, count_}; }
  operator std::span<T>() const noexcept { return span(); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] T& operator[](std::size_t index) const noexcept { return data_[index]; }

 private:
  SharedHeap* heap_ = nullptr;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// Keeps memory of the application's own registered: peers on this host map it, so that collectives on it
/// copy nothing twice. Its end makes the memory private again, where it stands. Lifetime: ends before its
/// communicator does and before the memory is freed; not while a collective uses it.
class Registration {
 public:
  Registration() = default;
  Registration(SharedHeap& heap, std::span<std::byte> memory) : heap_(&heap), data_(memory.data()) {
    heap.adopt(memory.data(), memory.size());
  }
  Registration(Registration&& other) noexcept
      : heap_(other.heap_), data_(std::exchange(other.data_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(heap_, other.heap_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Registration() {
    if (data_ != nullptr) heap_->restore(data_);
  }

 private:
  SharedHeap* heap_ = nullptr;
  std::byte* data_ = nullptr;
};

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

  Communicator(Communicator&&) noexcept = default;
  Communicator& operator=(Communicator&&) = delete;
  /// Hands what is left to the engine, which closes it; co_await close() to know when.
  ~Communicator();

  /// Tells the others that this rank is done and releases everything. Collectives cannot be called
  /// afterwards.
  Task<> close();
  /// Gives up: every other rank gets PeerAborted with this reason.
  void abort(const std::string& reason) noexcept { core_->abort(reason); }

  [[nodiscard]] Rank rank() const noexcept { return core_->membership().rank; }
  [[nodiscard]] Rank size() const noexcept { return core_->membership().size; }
  [[nodiscard]] const std::string& name() const noexcept { return core_->membership().name; }
  [[nodiscard]] Engine& engine() const noexcept { return core_->engine(); }
  /// How this rank reaches its peers: "shm", "tcp", "shm+tcp".
  [[nodiscard]] const std::string& transport() const noexcept { return core_->transport(); }
  [[nodiscard]] const Membership& membership() const noexcept { return core_->membership(); }
  /// Whether collectives can still be called, and if not, why.
  [[nodiscard]] bool is_failed() const noexcept { return core_->health().is_failed(); }
  [[nodiscard]] const Error& failure() const noexcept { return core_->health().cause(); }

  /// Which algorithm runs such a call, and why; what is compared, and with what numbers. Nothing is
  /// exchanged.
  ///
  /// `bytes` is the vector on every rank for broadcast and all_reduce, the whole output for all_gather, the
  /// whole input for reduce_scatter; nothing for barrier. Throws InvalidArgument where the call would: for
  /// bytes that are no whole elements, the same number for each rank, and for a forced algorithm that cannot
  /// run here.
  [[nodiscard]] Explanation explain(Operator op, DataType type, std::size_t bytes,
                                    std::optional<AlgorithmId> forced = std::nullopt) const;
  /// How the ranks reach each other, with what was measured at joining: the numbers that choices rest on.
  [[nodiscard]] const Reach& reach() const noexcept { return core_->reach(); }

  /// Memory that peers on this host map already; over other transports ordinary to them. Throws
  /// ResourceLimit.
  template <Element T>
  [[nodiscard]] SharedBuffer<T> allocate(std::size_t count) {
    return SharedBuffer<T>(core_->heap(), count);
  }

  /// Registers memory that another allocator made: whole pages (4096 bytes) of ordinary, anonymous memory.
  /// They move into memory that peers map, at the same address and with their contents; nobody may write to
  /// them meanwhile, and children that fork later share them. Takes a few milliseconds per 2 MiB, so register
  /// once. Throws InvalidArgument, ResourceLimit.
  template <Element T>
  [[nodiscard]] Registration register_buffer(std::span<T> buffer) {
    return Registration(core_->heap(), std::as_writable_bytes(buffer));
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

  // The same with types known at run time only:
  [[nodiscard]] Collective broadcast(DataType type, std::span<std::byte> data, Rank root);
  [[nodiscard]] Collective all_reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                      ReduceOp op);
  [[nodiscard]] Collective all_gather(DataType type, std::span<const std::byte> in, std::span<std::byte> out);
  [[nodiscard]] Collective reduce_scatter(DataType type, std::span<const std::byte> in,
                                          std::span<std::byte> out, ReduceOp op);

 private:
  explicit Communicator(std::unique_ptr<CommunicatorCore> core) noexcept;
  [[nodiscard]] Collective make(Call call);

  std::unique_ptr<CommunicatorCore> core_;
};

}  // namespace cohort
