// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/framed/byte_stream.h>
#include <cohort/net/framed/receive_buffer.h>
#include <cohort/net/link.h>

#include <cstddef>
#include <span>

namespace cohort::framed {

/// The bytes of one frame that have not come yet, and where they go: straight to their place, or, to be
/// combined with what is there, through the staging buffer.
///
/// Lifetime: the place and the reducer are those of an operation or a window that waits for the frame.
class Payload {
 public:
  /// None.
  Payload() = default;
  /// Without a reducer the bytes are stored as they are.
  Payload(std::byte* to, std::size_t bytes, const Reducer* reducer) noexcept
      : to_(to), left_(bytes), reducer_(reducer) {}

  [[nodiscard]] bool is_complete() const noexcept { return left_ == 0; }
  [[nodiscard]] std::size_t left() const noexcept { return left_; }

  /// Where the rest goes; none if it is combined.
  [[nodiscard]] std::span<std::byte> place() const noexcept {
    return reducer_ != nullptr ? std::span<std::byte>() : std::span(to_, left_);
  }
  /// Moves what is staged of it to where it goes.
  void take(ReceiveBuffer& staging) noexcept;
  /// One attempt to receive more, a piece at most: bytes, 0 at the end of the stream, or minus the error
  /// number.
  [[nodiscard]] int receive(ByteStream& stream, ReceiveBuffer& staging) noexcept;

 private:
  void moved(std::size_t bytes) noexcept {
    to_ += bytes;
    left_ -= bytes;
  }
  void fold(ReceiveBuffer& staging) noexcept;
  [[nodiscard]] int receive_block(ByteStream& stream, std::span<std::byte> block) noexcept;
  void fold_block(std::span<const std::byte> bytes, ReceiveBuffer& staging) noexcept;

  std::byte* to_ = nullptr;
  std::size_t left_ = 0;
  const Reducer* reducer_ = nullptr;
};

}  // namespace cohort::framed
