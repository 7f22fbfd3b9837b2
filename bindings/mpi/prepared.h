// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/comm.h>
#include <cohort/bindings/mpi/datatype.h>
#include <cohort/bindings/mpi/op.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cohort::mpi {

/// A call of MPI with its arguments looked at: what cohort is asked for, and what this process does with
/// buffers before and after it. Made anew each time that a persistent request starts.
///
/// Threads: of the program, one at a time.
class Prepared {
 public:
  /// Throws Failure for a communicator that is none.
  explicit Prepared(MPI_Comm handle) : comm_(comm_of(handle)) {}
  explicit Prepared(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) {}

  [[nodiscard]] const std::shared_ptr<Comm>& comm() const noexcept { return comm_; }
  [[nodiscard]] bindings::SharedCommunicator& shared() const noexcept { return *comm_->shared; }
  [[nodiscard]] Rank rank() const noexcept { return comm_->shared->rank(); }
  [[nodiscard]] Rank size() const noexcept { return comm_->shared->size(); }
  /// Throws Failure for one that is no rank.
  [[nodiscard]] Rank root(int rank) const;

  // Buffers of the program as bytes without gaps: where they lie, or copied, and back once the call is over.

  [[nodiscard]] std::span<const std::byte> input(const void* buffer, Number count, MPI_Datatype datatype);
  [[nodiscard]] std::span<std::byte> output(void* buffer, Number count, MPI_Datatype datatype);
  /// Of a message that may be shorter.
  [[nodiscard]] std::span<std::byte> landing(void* buffer, Number count, MPI_Datatype datatype);
  /// What is read, and then written to.
  [[nodiscard]] std::span<std::byte> both(void* buffer, Number count, MPI_Datatype datatype);
  /// Blocks of which each has a count, a place and maybe a type of its own. `sizes` gets their bytes.
  struct Blocks {
    void* buffer;
    Numbers counts;
    Numbers places;             ///< in extents of the type, or, where each has its own, in bytes
    const MPI_Datatype* types;  ///< one
    bool has_types = false;     ///< or one for each
  };
  [[nodiscard]] std::span<const std::byte> input(const Blocks& blocks, std::vector<std::size_t>& sizes);
  [[nodiscard]] std::span<std::byte> output(const Blocks& blocks, std::vector<std::size_t>& sizes);
  /// What output() would give, with what lies there.
  [[nodiscard]] std::span<std::byte> both(const Blocks& blocks, std::vector<std::size_t>& sizes);
  /// Memory for the time of the call.
  [[nodiscard]] std::span<std::byte> room(std::size_t bytes);
  /// Numbers for the time of the call.
  [[nodiscard]] std::vector<std::size_t>& numbers();
  void keep(std::shared_ptr<const void> object) { kept().objects.push_back(std::move(object)); }

  // What is asked for; of nothing it is over at once.

  void call(bindings::AnyCall what) { first_ = std::move(what); }
  /// A second message beside a first one, which is what statuses tell of.
  void receive_too(const MessageRequest& what) { second_ = what; }
  /// Instead of a call something that was prepared.
  void begin_with(std::shared_ptr<bindings::Request> request) { other_ = std::move(request); }
  /// The caller goes on at once: what is sent is copied.
  void buffer() noexcept { is_buffered_ = true; }
  /// With MPI_PROC_NULL: statuses say so.
  void with_nobody() noexcept { is_with_nobody_ = true; }
  /// Run in the thread that waits, or tests, once it is over without a failure. In their order.
  void when_over(std::function<void(const bindings::Request&)> function) {
    kept().when_over.push_back(std::move(function));
  }

  /// Makes it and waits. Throws what it throws.
  void complete(MPI_Status* status);

 private:
  friend class Request;
  struct Kept {
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::vector<std::unique_ptr<std::vector<std::size_t>>> numbers;
    std::vector<std::shared_ptr<const void>> objects;
    std::vector<std::function<void(const bindings::Request&)>> when_over;
  };
  [[nodiscard]] Kept& kept() {
    if (kept_ == nullptr) kept_ = std::make_shared<Kept>();
    return *kept_;
  }
  /// Where all of it lies one behind the other: from where on.
  [[nodiscard]] std::optional<std::byte*> find_whole(const Blocks& blocks,
                                                     std::vector<std::size_t>& sizes) const;
  void pack(const Blocks& blocks, std::byte* to) const;
  void unpack_later(const Blocks& blocks, std::span<const std::byte> from);
  [[nodiscard]] std::shared_ptr<bindings::Request> begin(bindings::AnyCall what);
  [[nodiscard]] bool is_simple() const noexcept {
    return first_ && !second_ && !is_buffered_ && (kept_ == nullptr || kept_->when_over.empty());
  }

  std::shared_ptr<Comm> comm_;
  std::optional<bindings::AnyCall> first_;
  std::optional<MessageRequest> second_;
  std::shared_ptr<bindings::Request> other_;
  std::shared_ptr<Kept> kept_;
  bool is_buffered_ = false;
  bool is_with_nobody_ = false;
};

/// What a status tells of nothing, as of a request that is inactive.
void give_empty_status(MPI_Status* status) noexcept;
void give_status(MPI_Status* status, const Envelope& envelope) noexcept;
void give_status_of_nobody(MPI_Status* status) noexcept;
void give_status_bytes(MPI_Status* status, std::size_t bytes) noexcept;
[[nodiscard]] std::size_t bytes_of_status(const MPI_Status& status) noexcept;

}  // namespace cohort::mpi
