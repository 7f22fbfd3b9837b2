// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/net/framed/byte_stream.h>

#include <memory>

namespace cohort::tcp {

/// The bytes of one TCP connection.
class SocketStream final : public framed::ByteStream {
 public:
  explicit SocketStream(Socket socket) noexcept : socket_(std::move(socket)) { socket_.set_no_delay(); }

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
  [[nodiscard]] bool goes_both_ways() const noexcept override { return true; }
  [[nodiscard]] bool is_taken() noexcept override { return socket_.is_acknowledged(); }
  void shutdown() noexcept override { socket_.shutdown(); }
  [[nodiscard]] std::string explain(int error_number) const override;

 private:
  Socket socket_;
};

/// A stream over the connection that this task makes. Throws what that throws.
[[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> open_stream(Task<Socket> connecting);

}  // namespace cohort::tcp
