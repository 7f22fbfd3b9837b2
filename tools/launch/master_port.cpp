// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/master_port.h>

#include <cohort/engine/io/address.h>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <utility>

namespace cohort {
namespace {

/// Below what systems give by themselves, and below where ranks meet that know a host alone.
constexpr PortRange kUsual{20000, 29399};

/// Nothing, where it cannot be bound.
Descriptor bound(const Address& address) {
  const auto& to = *reinterpret_cast<const sockaddr*>(address.data());
  Descriptor socket(::socket(to.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int off = 0;
  if (to.sa_family == AF_INET6)  // at all IPv4 addresses, too
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const bool is_bound =
      socket.is_open() && ::bind(socket.number(), &to, static_cast<socklen_t>(address.size_bytes())) == 0;
  return is_bound ? std::move(socket) : Descriptor();
}

bool has_ipv6() { return bound(Address::parse_numeric("[::]:0")).is_open(); }

/// Without SO_REUSEADDR: connections of its last user may still be closing.
bool is_free(std::uint16_t port) {
  static const bool is_dual = has_ipv6();
  return bound(Address::parse_numeric(is_dual ? "[::]:0" : "0.0.0.0:0").with_port(port)).is_open();
}

PortRange given_by_system() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  PortRange range{1, 0};  // none
  PortRange read;
  if (file >> read.low >> read.high) range = read;
  return range;
}

}  // namespace

std::optional<MasterPort> MasterPort::choose(const std::optional<PortRange>& range) {
  const PortRange from = range.value_or(kUsual);
  const PortRange system = given_by_system();
  const unsigned first = first_port_to_try(from);
  for (const bool may_be_the_systems : {false, true}) {
    for (unsigned i = 0; i < from.count(); ++i) {
      const auto port = static_cast<std::uint16_t>(from.low + (first + i) % from.count());
      const bool is_the_systems = port >= system.low && port <= system.high;
      if (is_the_systems != may_be_the_systems) continue;
      Descriptor claim = bound(Address::unix_abstract(fmt::format("cohort-master-port-{}", port)));
      if (claim.is_open() && is_free(port)) return MasterPort(std::move(claim), port);
    }
  }
  return std::nullopt;
}

std::string host_of(std::string_view address) {
  if (address.starts_with("unix:")) return {};
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::string(host);
}

}  // namespace cohort
