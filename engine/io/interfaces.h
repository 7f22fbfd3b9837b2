// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/address.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// An address of one of this host's interfaces.
struct InterfaceAddress {
  std::string interface;
  Address address;  ///< without a port
  unsigned prefix_bits = 0;
  bool is_up = false;
};

/// Those of IPv4 and IPv6, in the kernel's order. Throws SystemError. Threads: any.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

/// The bytes of an address that its network has in common are equal.
[[nodiscard]] bool is_in_network(const Address& address, const Address& network,
                                 unsigned prefix_bits) noexcept;

/// Which interfaces may be used, as COHORT_SOCKET_IFNAME says it: names ("eth0", "ib*" for all that begin so)
/// and networks ("10.0.0.0/8", "fd00::/16") between commas; with ^ in front all but these. Empty: any.
class InterfaceChoice {
 public:
  InterfaceChoice() = default;
  /// Throws InvalidArgument naming `source`.
  static InterfaceChoice parse(std::string_view text, std::string_view source);

  [[nodiscard]] bool is_any() const noexcept { return names_.empty() && networks_.empty(); }
  [[nodiscard]] bool allows(const InterfaceAddress& candidate) const noexcept;
  /// As it was written.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  struct Network {
    Address address;
    unsigned prefix_bits;
  };

  std::string text_;
  bool is_exclusion_ = false;
  std::vector<std::string> names_;
  std::vector<Network> networks_;
};

/// Of the addresses that are allowed, and up, the one to be reached at from `peer`, without a port: the
/// kernel's own choice on the way there (`routed`) if it is among them, else one in the peer's network, else
/// the first of its kind that is no loopback and not of one link only. Throws InvalidArgument with what there
/// is if none is allowed.
[[nodiscard]] Address choose_own_address(const InterfaceChoice& choice,
                                         const std::vector<InterfaceAddress>& candidates, const Address& peer,
                                         const std::optional<Address>& routed);

/// The same where no peer is known: of the way to the default gateway, if it is allowed, else the first that
/// others may reach, else loopback.
[[nodiscard]] Address choose_own_address(const InterfaceChoice& choice);

}  // namespace cohort
