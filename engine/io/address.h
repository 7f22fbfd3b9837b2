// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

/// Where a socket listens or connects to: "unix:NAME" (abstract, so nothing is left on disk), "HOST:PORT",
/// "[V6]:PORT".
class Address {
 public:
  /// Throws InvalidArgument with what is accepted. HOST is a numeric address or a name that resolves; PORT 0
  /// is any.
  static Address parse(std::string_view text);
  /// The same of a host and port in numbers alone: nothing is looked up.
  static Address parse_numeric(std::string_view text);
  static Address unix_abstract(std::string_view name);

  [[nodiscard]] bool is_unix() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  /// As parse() reads it.
  [[nodiscard]] std::string to_string() const;
  /// The same host with any free port.
  [[nodiscard]] Address with_any_port() const { return with_port(0); }
  [[nodiscard]] Address with_port(std::uint16_t port) const;
  /// 0 of a Unix address.
  [[nodiscard]] std::uint16_t port() const noexcept;

  static constexpr std::size_t kLargestBytes = 128;
  /// From a sockaddr of so many bytes, at most kLargestBytes.
  static Address from_sockaddr(const void* address, std::size_t bytes) noexcept;
  bool operator==(const Address& other) const noexcept;

  // The sockaddr itself, for the driver.
  [[nodiscard]] const std::byte* data() const noexcept { return storage_.data(); }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  alignas(8) std::array<std::byte, kLargestBytes> storage_{};
  std::size_t size_bytes_ = 0;
};

}  // namespace cohort
