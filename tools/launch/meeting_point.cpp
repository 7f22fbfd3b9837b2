// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/meeting_point.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/address.h>
#include <cohort/engine/io/route.h>
#include <cohort/engine/io/socket.h>
#include <cohort/engine/system/environment.h>

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <sstream>

namespace cohort {
namespace {

Address with_free_port(const Address& own) {
  const sockaddr& any = *reinterpret_cast<const sockaddr*>(own.data());
  const Descriptor probe(::socket(any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (!probe.is_open() || ::bind(probe.number(), &any, static_cast<socklen_t>(own.size_bytes())) != 0 ||
      ::getsockname(probe.number(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    throw system_error(errno, fmt::format("looking for a free port at {}", own.to_string()));
  return Address::from_sockaddr(&bound, size);
}

}  // namespace

std::string address_of_ssh() {
  std::istringstream words(environment::text("SSH_CONNECTION").value_or(""));
  std::string client;
  std::string client_port;
  std::string server;
  words >> client >> client_port >> server;
  return server;
}

std::string choose_meeting_point(std::span<const std::string> hosts) {
  std::optional<Address> chosen;
  std::string problems;
  for (const std::string& host : hosts) {
    try {
      const bool is_ipv6 = host.find(':') != std::string::npos;
      const Address peer = Address::parse(is_ipv6 ? fmt::format("[{}]:1", host) : host + ":1");
      const std::optional<Address> own = route::own_address_toward(peer);
      if (!own) {
        problems += fmt::format("; no route to {}", host);
        continue;
      }
      if (!chosen || chosen->is_loopback()) chosen = own;
      if (!chosen->is_loopback()) break;
    } catch (const Error& error) {
      problems += fmt::format("; {}", error.message());
    }
  }
  if (!chosen)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("no address of this host is known by which the others reach it{}: set "
                            "COHORT_ADDR=HOST:PORT for `cohort run`",
                            problems));
  return with_free_port(*chosen).to_string();
}

}  // namespace cohort
