// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/engine/io/address.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// The ports that ranks may listen at, as COHORT_PORT_RANGE=LOW-HIGH says it; both count.
struct PortRange {
  std::uint16_t low = 0;
  std::uint16_t high = 0;
  std::uint16_t left_out = 0;  ///< one of them that is somebody else's, as MASTER_PORT says it; 0: none

  [[nodiscard]] unsigned count() const noexcept { return high - low + 1U; }
  /// Throws InvalidArgument naming `source`.
  static PortRange parse(std::string_view text, std::string_view source);
};

/// Keeps a port for somebody of this process who is going to listen there. Bound with SO_REUSEADDR and not
/// listening, so that the listener may bind there beside it, and no other process is given the port
/// meanwhile.
class ReservedPort {
 public:
  /// The first free one of the range, from a random one on, or any. Throws ResourceLimit where all are taken.
  ReservedPort(const Address& host, const std::optional<PortRange>& range);
  ReservedPort(ReservedPort&& other) noexcept;
  ReservedPort& operator=(ReservedPort&&) = delete;
  ~ReservedPort();

  [[nodiscard]] const Address& address() const noexcept { return address_; }

 private:
  int socket_ = -1;
  Address address_;
};

/// Where to begin in a range, so that ranks that start at once do not all try the same.
[[nodiscard]] unsigned first_port_to_try(const PortRange& range);
[[noreturn]] void throw_no_free_port(const PortRange& range, const Address& host);

/// Calls listen(address) with one port after the other, from a random one on, until it throws no SystemError;
/// once with any port where there is no range. Throws ResourceLimit where none of the range is free.
template <class Listen>
auto listen_within(const std::optional<PortRange>& range, const Address& host, const Listen& listen) {
  if (!range) return listen(host.with_any_port());
  const unsigned first = first_port_to_try(*range);
  for (unsigned i = 0; i < range->count(); ++i) {
    const unsigned port = range->low + (first + i) % range->count();
    if (port == range->left_out && range->count() > 1) continue;
    try {
      return listen(host.with_port(static_cast<std::uint16_t>(port)));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::SystemError) throw;
    }
  }
  throw_no_free_port(*range, host);
}

}  // namespace cohort
