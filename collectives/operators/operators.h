// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/data_type.h>
#include <cohort/collectives/reduce_op.h>
#include <cohort/net/rank.h>
#include <cohort/net/slice.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cohort {

enum class Operator : std::uint8_t { barrier, broadcast, all_reduce, all_gather, reduce_scatter };
inline constexpr std::size_t kOperators = 5;

std::string_view to_string(Operator op) noexcept;
std::optional<Operator> parse_operator(std::string_view text) noexcept;

/// How values are combined: what a schedule passes on to a reducing step, and never looks into.
struct Combine {
  Combine() = default;
  Combine(DataType of_type, ReduceOp with_op, Rank ranks) noexcept
      : type(of_type), op(with_op), average_over(with_op == ReduceOp::avg ? ranks : 0) {}

  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank average_over = 0;  ///< divide by this as the last step; 0: do not
};

// What a schedule is given: slices in bytes, in whole elements of `element_bytes`. In place, send lies in the
// recv window.

struct Barrier {};

/// Every rank ends with the root's `data`.
struct Broadcast {
  Slice data;
  Rank root = 0;
  std::size_t element_bytes = 1;

  [[nodiscard]] std::size_t size_bytes() const noexcept { return data.bytes; }
  [[nodiscard]] Broadcast part(std::size_t at, std::size_t bytes) const noexcept {
    return {data.part(at, bytes), root, element_bytes};
  }
};

/// Every rank ends with the combination of all ranks' `send` in `recv`.
struct AllReduce {
  Slice send;
  Slice recv;
  Combine combine;
  std::size_t element_bytes = 1;

  [[nodiscard]] std::size_t size_bytes() const noexcept { return send.bytes; }
  [[nodiscard]] AllReduce part(std::size_t at, std::size_t bytes) const noexcept {
    return {send.part(at, bytes), recv.part(at, bytes), combine, element_bytes};
  }
};

/// Every rank ends with rank r's `send` at block r of the receive window. Blocks are `stride` apart.
struct AllGather {
  Slice send;
  Slice first_block;  ///< rank 0's, in the recv window; as large as `send`
  std::size_t stride = 0;
  std::size_t element_bytes = 1;

  [[nodiscard]] Slice block(Rank of) const noexcept {
    return {first_block.window, first_block.offset + of * stride, first_block.bytes};
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return send.bytes; }
  [[nodiscard]] AllGather part(std::size_t at, std::size_t bytes) const noexcept {
    return {send.part(at, bytes), first_block.part(at, bytes), stride, element_bytes};
  }
};

/// Rank r ends with the combination of all ranks' block r of the send window in `recv`. Blocks are `stride`
/// apart.
struct ReduceScatter {
  Slice first_block;  ///< for rank 0, in the send window; as large as `recv`
  Slice recv;
  std::size_t stride = 0;
  Combine combine;
  std::size_t element_bytes = 1;

  [[nodiscard]] Slice block(Rank of) const noexcept {
    return {first_block.window, first_block.offset + of * stride, first_block.bytes};
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return recv.bytes; }
  [[nodiscard]] ReduceScatter part(std::size_t at, std::size_t bytes) const noexcept {
    return {first_block.part(at, bytes), recv.part(at, bytes), stride, combine, element_bytes};
  }
};

/// A slice cut into nearly equal parts of whole elements; the last ones may be empty.
class Blocks {
 public:
  Blocks(const Slice& whole, std::size_t parts, std::size_t element_bytes) noexcept
      : whole_(whole), block_bytes_((whole.bytes / element_bytes + parts - 1) / parts * element_bytes) {}

  [[nodiscard]] Slice operator[](std::size_t index) const noexcept {
    const std::size_t begin = index * block_bytes_ < whole_.bytes ? index * block_bytes_ : whole_.bytes;
    const std::size_t left = whole_.bytes - begin;
    return whole_.part(begin, left < block_bytes_ ? left : block_bytes_);
  }

 private:
  Slice whole_;
  std::size_t block_bytes_;
};

}  // namespace cohort
