// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/framed/byte_stream.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

namespace cohort::tcp {

/// Several connections to one peer as one stream: the payloads of large messages go over all of them, all
/// else over the first one.
///
/// Such a payload is cut into stripes, and stripe i lies on connection i modulo their number. So both ends
/// know from its size where each byte is: nothing is sent about it, and what comes is in order. A sender
/// fills each connection as far as that has room; a receiver reads stripe by stripe, and what comes ahead on
/// other connections waits in their buffers.
///
/// All connections take as many bytes: the slowest one decides. One that breaks ends the stream.
class StripedStream final : public framed::ByteStream {
 public:
  /// What goes over each connection in turn, of payloads from the second size on. Both ends go by them.
  static constexpr std::size_t kStripe = tuning::sockets::kStripe;
  static constexpr std::size_t kStripeFrom = tuning::sockets::kStripeFrom;
  static_assert(kStripe >= tuning::sockets::kReceiveAtOnce, "else more than a stripe comes with a header");

  /// `streams`: connections, at least one; each keeps bytes that nobody has received. What is large goes over
  /// the first `spread_over` of them.
  StripedStream(std::vector<std::unique_ptr<framed::ByteStream>> streams, std::size_t spread_over);

  /// From now on, at both ends, and as far as there are so many. No large message is under way.
  void spread_over(std::size_t connections) noexcept;

  [[nodiscard]] int try_send_some(std::span<const std::byte> first,
                                  std::span<const std::byte> second) noexcept override;
  [[nodiscard]] int try_receive_some(std::span<std::byte> into) noexcept override;
  void expect(std::size_t bytes, std::size_t come) noexcept override;
  /// All of a message has to be known before its first byte.
  [[nodiscard]] std::size_t piece_bytes() const noexcept override {
    return std::numeric_limits<std::size_t>::max();
  }
  [[nodiscard]] Task<> until_writable() override;
  [[nodiscard]] Task<> until_readable() override;
  [[nodiscard]] Task<int> receive_some(std::span<std::byte> into) override;
  /// The kernel sees to it.
  [[nodiscard]] Task<> until_sent() override { co_return; }
  void shutdown() noexcept override;
  [[nodiscard]] std::string explain(int error_number) const override {
    return streams_.front()->explain(error_number);
  }

 private:
  /// A large message that goes out. Its memory is looked at in calls of try_send_some() alone.
  struct Outgoing {
    std::span<const std::byte> header{};  ///< what is left of it
    std::span<const std::byte> payload{};
    std::vector<std::size_t> sent{};  ///< of the payload, by connection
    std::size_t left = 0;             ///< of both; 0: there is none

    [[nodiscard]] bool is_under_way() const noexcept { return left != 0; }
  };

  /// Where in a payload the byte of that number of a connection's share lies.
  [[nodiscard]] std::size_t place(std::size_t connection, std::size_t of_share) const noexcept;
  void begin(std::span<const std::byte> header, std::span<const std::byte> payload) noexcept;
  /// One attempt, to the end of a stripe: bytes, 0 where nothing is left for it, or minus the error number.
  [[nodiscard]] int send_on(std::size_t connection) noexcept;
  /// As much as there is room for, a piece at most; as try_send_some().
  [[nodiscard]] int send_on_all() noexcept;
  /// The one with the foremost byte that has not gone out.
  [[nodiscard]] std::size_t hindmost() const noexcept;
  /// On which what comes next comes.
  [[nodiscard]] framed::ByteStream& current() const noexcept;

  const std::vector<std::unique_ptr<framed::ByteStream>> streams_;
  std::size_t used_ = 1;  ///< of these
  Outgoing out_;
  std::size_t next_ = 0;  ///< connection that is tried first
  // Of the large payload that comes:
  std::size_t expected_ = 0;  ///< its size; 0: there is none
  std::size_t come_ = 0;
};

}  // namespace cohort::tcp
