// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace cohort {

/// What EBADMSG means, for people.
inline constexpr std::string_view kBytesWereChanged =
    "bytes of an encrypted connection came other than they were sent: somebody or something on the network "
    "between the two hosts changes them";

/// What a socket's bytes go through on their way to the network and from it: encryption.
///
/// Results are those of Network's calls, with EBADMSG for bytes that are not what the other end sent.
/// Threads: the engine's.
class SocketProtection {
 public:
  virtual ~SocketProtection() = default;

  /// One attempt to send two pieces without waiting: bytes of them that went out. After EAGAIN the next call
  /// begins with the same bytes: some of them may be on their way.
  [[nodiscard]] virtual int send(std::span<const std::byte> first,
                                 std::span<const std::byte> second) noexcept = 0;
  /// One attempt to receive without waiting: bytes that came, 0 at the end of the stream.
  [[nodiscard]] virtual int receive(std::span<std::byte> into) noexcept = 0;
  /// Whether receive() may have something without anything new from the network.
  [[nodiscard]] virtual bool has_received() const noexcept = 0;
};

}  // namespace cohort
