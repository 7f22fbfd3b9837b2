// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/route.h>

#include <cohort/engine/io/socket.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

namespace cohort::route {

std::optional<Address> own_address_toward(const Address& to) noexcept {
  const sockaddr& target = *reinterpret_cast<const sockaddr*>(to.data());
  if (target.sa_family == AF_UNIX) return std::nullopt;
  const Descriptor probe(::socket(target.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.is_open()) return std::nullopt;
  if (::connect(probe.number(), &target, static_cast<socklen_t>(to.size_bytes())) != 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(probe.number(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return std::nullopt;
  return Address::from_sockaddr(&own, size).with_any_port();
}

Address on_link_of(const Address& address, const Address& own) noexcept {
  const auto& any = *reinterpret_cast<const sockaddr*>(address.data());
  const auto& link = *reinterpret_cast<const sockaddr*>(own.data());
  if (any.sa_family != AF_INET6 || link.sa_family != AF_INET6) return address;
  sockaddr_in6 scoped = reinterpret_cast<const sockaddr_in6&>(any);
  const std::uint32_t scope = reinterpret_cast<const sockaddr_in6&>(link).sin6_scope_id;
  if (IN6_IS_ADDR_LINKLOCAL(&scoped.sin6_addr) == 0 || scope == 0) return address;
  scoped.sin6_scope_id = scope;
  return Address::from_sockaddr(&scoped, sizeof scoped);
}

}  // namespace cohort::route
