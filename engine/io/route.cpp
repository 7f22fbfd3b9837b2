// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/route.h>

#include <cohort/engine/io/socket.h>

#include <sys/socket.h>

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

}  // namespace cohort::route
