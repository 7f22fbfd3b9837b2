// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/hccl/blocks.h>
#include <cohort/bindings/hccl/comm.h>
#include <cohort/bindings/hccl/elements.h>
#include <cohort/bindings/hccl/error.h>
#include <cohort/bindings/session/call.h>

#include <acl/acl_base.h>
#include <hccl/hccl_types.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort::bindings::hccl {

/// Checks the arguments of one function, makes calls of them, and gives these to the stream at the end.
///
/// Where an argument is wrong, everything, the constructor too, throws CodedError, which names it.
class Asking {
 public:
  Asking(const char* function, HcclComm comm, const void* stream);

  [[nodiscard]] Rank rank() const noexcept { return comm_->comm().rank(); }
  [[nodiscard]] Rank ranks() const noexcept { return comm_->comm().size(); }

  // What holds for what is added next.
  void move(HcclDataType type) { element_ = element_of(function_, type); }
  void move(ElementForm element) noexcept { element_ = element; }
  void combine(HcclDataType type, HcclReduceOp op) {
    element_ = combined_element_of(function_, type);
    reduce_ = reduce_op_of(function_, op);
  }
  void reduce_by(ReduceOp op) noexcept { reduce_ = op; }
  void set_root(std::uint32_t root);

  /// Of blocks that are alike: `count` elements where the operator has one.
  void add_collective(Operator op, const void* in, void* out, std::uint64_t count);
  void add_barrier();
  /// The counts outlive the asking in what is kept.
  void add_with_counts(Operator op, std::span<const std::byte> in, std::span<std::byte> out,
                       std::vector<std::size_t> counts);
  /// Elements of two types are bytes to both ends.
  void add_all_to_all_v(const Blocks& in, const Blocks& out, bool are_alike);
  void add_by_matrix(void* in, void* out, const void* matrix);
  /// To itself: both of them, in any order.
  void add_message(MessageCall::Direction direction, void* data, std::uint64_t count, std::uint32_t peer);

  // What these are made of.
  /// That this rank's block has so many elements.
  void check_own(const Blocks& blocks, std::uint64_t count, const char* name) const;
  /// Counts and displacements, a uint64_t of each for each rank.
  [[nodiscard]] Blocks blocks(void* first, const char* name, const void* counts,
                              const void* displacements) const;
  [[nodiscard]] std::span<std::byte> whole(void* first, const char* name, std::uint64_t count) const;
  /// What the call reads: the buffer, or a copy that is made before it begins.
  [[nodiscard]] std::span<const std::byte> packed(const Blocks& blocks);
  /// What it writes: the buffer, or what is copied there afterwards.
  [[nodiscard]] std::span<std::byte> unpacked(const Blocks& blocks);

  void give_to_stream();

 private:
  /// What calls refer to until they are over.
  struct Kept {
    std::vector<std::size_t> counts;
    std::vector<std::size_t> recv_counts;
    std::vector<std::byte> in;
    std::vector<std::byte> out;
  };

  [[nodiscard]] std::vector<std::size_t> numbers(const void* first, const char* name,
                                                 std::size_t count) const;
  [[nodiscard]] std::size_t bytes_of(std::uint64_t count) const noexcept {
    return times(count, element_.size_bytes());
  }
  void need_memory(const void* first, std::size_t bytes, const char* name) const;
  [[nodiscard]] CallArguments arguments() const noexcept;

  const char* const function_;
  const std::shared_ptr<Comm> comm_;
  const std::shared_ptr<Stream> stream_;
  ElementForm element_;
  ReduceOp reduce_ = ReduceOp::sum;
  Rank root_ = 0;
  const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  std::span<std::byte> to_self_{};
  std::span<const std::byte> from_self_{};
  bool has_to_self_ = false;
  bool has_from_self_ = false;
  Comm::Call call_;
};

/// Does what `body` says with one, and gives it to the stream.
template <class Body>
HcclResult ask(const char* function, HcclComm comm, const void* stream, const Body& body) noexcept {
  return hccl_guarded([&] {
    Asking asking(function, comm, stream);
    body(asking);
    asking.give_to_stream();
  });
}

}  // namespace cohort::bindings::hccl
