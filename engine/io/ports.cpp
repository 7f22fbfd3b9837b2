// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/ports.h>

#include <cohort/engine/system/environment.h>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>

namespace cohort {
namespace {

constexpr std::uint64_t kLastPort = 65535;

int bound_socket(const Address& at) {
  const auto& any = *reinterpret_cast<const sockaddr*>(at.data());
  const int socket = ::socket(any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) throw system_error(errno, "creating a socket");
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket, &any, static_cast<socklen_t>(at.size_bytes())) == 0) return socket;
  const int failure = errno;
  ::close(socket);
  throw system_error(failure, fmt::format("taking {}", at.to_string()));
}

}  // namespace

PortRange PortRange::parse(std::string_view text, std::string_view source) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{}='{}' is no range of ports: give two, as in 29400-29499", source, text));
  PortRange range;
  range.low =
      static_cast<std::uint16_t>(environment::parse_number(source, text.substr(0, dash), 1, kLastPort));
  range.high =
      static_cast<std::uint16_t>(environment::parse_number(source, text.substr(dash + 1), 1, kLastPort));
  if (range.high < range.low)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{}='{}': {} is above {}", source, text, range.low, range.high));
  return range;
}

unsigned first_port_to_try(const PortRange& range) { return std::random_device()() % range.count(); }

void throw_no_free_port(const PortRange& range, const Address& host) {
  const std::string text = host.to_string();
  throw Error(
      ErrorKind::ResourceLimit,
      fmt::format("all {} ports from {} to {} are taken at {}: make COHORT_PORT_RANGE larger; each rank of a "
                  "host takes one, and rank 0 one more",
                  range.count(), range.low, range.high, text.substr(0, text.rfind(':'))));
}

ReservedPort::ReservedPort(const Address& host, const std::optional<PortRange>& range)
    : socket_(listen_within(range, host, [](const Address& at) { return bound_socket(at); })),
      address_(host) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&bound), &size) == 0)
    address_ = Address::from_sockaddr(&bound, size);
}

ReservedPort::ReservedPort(ReservedPort&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), address_(other.address_) {}

ReservedPort::~ReservedPort() {
  if (socket_ >= 0) ::close(socket_);
}

}  // namespace cohort
