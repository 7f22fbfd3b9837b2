// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/address.h>

#include <cohort/engine/error.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

namespace cohort {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("address '{}': {}; write unix:NAME, HOST:PORT or [IPV6]:PORT", text, why));
}

struct HostAndPort {
  std::string host;
  std::string port;
};

HostAndPort split(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse(text, "it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    refuse(text, "an IPv6 host needs brackets");
  unsigned number = 0;
  const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (failure != std::errc{} || end != port.data() + port.size() || number > 65535)
    refuse(text, fmt::format("'{}' is no port", port));
  if (host.empty()) refuse(text, "it has no host");
  return {std::string(host), std::string(port)};
}

std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> look_up(std::string_view text, int flags) {
  const HostAndPort parts = split(text);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (failure != 0) refuse(text, fmt::format("the host does not resolve ({})", ::gai_strerror(failure)));
  return {found, &::freeaddrinfo};
}

const sockaddr& as_sockaddr(const std::byte* storage) { return *reinterpret_cast<const sockaddr*>(storage); }

}  // namespace

Address Address::parse(std::string_view text) {
  constexpr std::string_view kUnixPrefix = "unix:";
  constexpr std::string_view kTcpPrefix = "tcp:";
  if (text.starts_with(kUnixPrefix)) return unix_abstract(text.substr(kUnixPrefix.size()));
  if (text.starts_with(kTcpPrefix)) text.remove_prefix(kTcpPrefix.size());
  const auto found = look_up(text, 0);
  return from_sockaddr(found->ai_addr, found->ai_addrlen);
}

Address Address::parse_numeric(std::string_view text) {
  const auto found = look_up(text, AI_NUMERICHOST);
  return from_sockaddr(found->ai_addr, found->ai_addrlen);
}

Address Address::unix_abstract(std::string_view name) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof un.sun_path - 1)
    refuse(fmt::format("unix:{}", name),
           fmt::format("a name has 1 to {} characters", sizeof un.sun_path - 1));
  std::memcpy(un.sun_path + 1, name.data(), name.size());  // a leading zero byte: abstract
  Address address;
  address.size_bytes_ = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  std::memcpy(address.storage_.data(), &un, address.size_bytes_);
  return address;
}

Address Address::from_sockaddr(const void* address, std::size_t bytes) noexcept {
  Address result;
  result.size_bytes_ = std::min(bytes, kLargestBytes);
  std::memcpy(result.storage_.data(), address, result.size_bytes_);
  return result;
}

bool Address::operator==(const Address& other) const noexcept {
  return size_bytes_ == other.size_bytes_ && std::equal(data(), data() + size_bytes_, other.data());
}

bool Address::is_unix() const noexcept { return as_sockaddr(data()).sa_family == AF_UNIX; }

bool Address::is_loopback() const noexcept {
  const sockaddr& any = as_sockaddr(data());
  if (any.sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(any).sin_addr.s_addr) >> 24) == 127;
  if (any.sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(any).sin6_addr) != 0;
  return true;
}

std::string Address::to_string() const {
  const sockaddr& any = as_sockaddr(data());
  if (any.sa_family == AF_UNIX) {
    const auto& un = reinterpret_cast<const sockaddr_un&>(any);
    const std::size_t path = offsetof(sockaddr_un, sun_path) + 1;
    return size_bytes_ <= path
               ? "unix:"
               : fmt::format("unix:{}", std::string_view(un.sun_path + 1, size_bytes_ - path));
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (any.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(any);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(any);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  std::array<char, IF_NAMESIZE> interface {};
  const bool has_scope =
      v6.sin6_scope_id != 0 && ::if_indextoname(v6.sin6_scope_id, interface.data()) != nullptr;
  return fmt::format("[{}{}{}]:{}", text.data(), has_scope ? "%" : "", interface.data(), ntohs(v6.sin6_port));
}

Address Address::with_port(std::uint16_t port) const {
  Address other = *this;
  auto& any = *reinterpret_cast<sockaddr*>(other.storage_.data());
  if (any.sa_family == AF_INET) reinterpret_cast<sockaddr_in&>(any).sin_port = htons(port);
  if (any.sa_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(any).sin6_port = htons(port);
  return other;
}

std::uint16_t Address::port() const noexcept {
  const sockaddr& any = as_sockaddr(data());
  if (any.sa_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(any).sin_port);
  if (any.sa_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(any).sin6_port);
  return 0;
}

}  // namespace cohort
