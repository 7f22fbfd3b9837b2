// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/framed/byte_stream.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace cohort::tcp {

/// The bytes of one TCP connection.
class SocketStream final : public framed::ByteStream {
 public:
  explicit SocketStream(Socket socket, std::size_t piece_bytes = tuning::sockets::kPiece) noexcept
      : socket_(std::move(socket)), piece_bytes_(piece_bytes) {
    socket_.set_no_delay();
  }

  [[nodiscard]] int try_send_some(std::span<const std::byte> first,
                                  std::span<const std::byte> second) noexcept override {
    return socket_.try_send_some(first, second);
  }
  [[nodiscard]] int try_receive_some(std::span<std::byte> into) noexcept override {
    return socket_.try_receive_some(into);
  }
  [[nodiscard]] Task<> until_writable() override;
  [[nodiscard]] Task<> until_readable() override;
  [[nodiscard]] Task<int> receive_some(std::span<std::byte> into) override;
  /// The kernel sees to it.
  [[nodiscard]] Task<> until_sent() override { co_return; }
  [[nodiscard]] std::size_t piece_bytes() const noexcept override { return piece_bytes_; }
  [[nodiscard]] bool goes_both_ways() const noexcept override { return true; }
  [[nodiscard]] bool is_taken() noexcept override { return socket_.is_acknowledged(); }
  void shutdown() noexcept override { socket_.shutdown(); }
  [[nodiscard]] std::string explain(int error_number) const override;

 private:
  Socket socket_;
  std::size_t piece_bytes_;
};

/// A stream over the connection that this task makes. Throws what that throws.
[[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> open_stream(Task<Socket> connecting);

}  // namespace cohort::tcp
