// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/interfaces.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/route.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <functional>
#include <memory>
#include <span>

namespace cohort {
namespace {

constexpr unsigned kByteBits = 8;

std::span<const std::uint8_t> host_bytes(const sockaddr& any) noexcept {
  if (any.sa_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(any).sin_addr;
    return {reinterpret_cast<const std::uint8_t*>(&address), sizeof address};
  }
  if (any.sa_family != AF_INET6) return {};
  const auto& address = reinterpret_cast<const sockaddr_in6&>(any).sin6_addr;
  return {reinterpret_cast<const std::uint8_t*>(&address), sizeof address};
}

const sockaddr& sockaddr_in_address(const Address& address) noexcept {
  return *reinterpret_cast<const sockaddr*>(address.data());
}

int family_of(const Address& address) noexcept { return sockaddr_in_address(address).sa_family; }

unsigned bits_of_mask(const sockaddr* mask) noexcept {
  unsigned bits = 0;
  if (mask != nullptr)
    for (const std::uint8_t byte : host_bytes(*mask)) bits += static_cast<unsigned>(std::popcount(byte));
  return bits;
}

bool is_of_one_link(const Address& address) noexcept {
  const sockaddr& any = sockaddr_in_address(address);
  const auto bytes = host_bytes(any);
  if (any.sa_family == AF_INET6) return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  return any.sa_family == AF_INET && bytes[0] == 169 && bytes[1] == 254;
}

/// "10.0.0.1", without its port.
std::string host_text(const Address& address) {
  const std::string text = address.to_string();
  return text.substr(0, text.rfind(':'));
}

std::string describe(const std::vector<InterfaceAddress>& candidates) {
  std::string text;
  for (const InterfaceAddress& one : candidates)
    text += fmt::format("{}{} {}/{}{}", text.empty() ? "" : ", ", one.interface, host_text(one.address),
                        one.prefix_bits, one.is_up ? "" : " (down)");
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw system_error(errno, "asking for this host's interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const std::size_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    found.push_back({each->ifa_name, Address::from_sockaddr(each->ifa_addr, bytes),
                     bits_of_mask(each->ifa_netmask),
                     (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_RUNNING) != 0});
  }
  return found;
}

bool is_in_network(const Address& address, const Address& network, unsigned prefix_bits) noexcept {
  const auto one = host_bytes(sockaddr_in_address(address));
  const auto other = host_bytes(sockaddr_in_address(network));
  if (one.empty() || one.size() != other.size()) return false;
  for (unsigned bit = 0; bit < prefix_bits && bit / kByteBits < one.size(); ++bit) {
    const unsigned mask = 0x80U >> bit % kByteBits;
    if (((one[bit / kByteBits] ^ other[bit / kByteBits]) & mask) != 0) return false;
  }
  return true;
}

InterfaceChoice InterfaceChoice::parse(std::string_view text, std::string_view source) {
  const auto refuse = [&](std::string_view why) {
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format(
            "{}='{}': {}; give names and networks, as in eth0,ib*,10.0.0.0/8, or ^docker0 for all but "
            "that",
            source, text, why));
  };
  InterfaceChoice choice;
  choice.text_ = text;
  std::string_view rest = text;
  choice.is_exclusion_ = rest.starts_with('^');
  if (choice.is_exclusion_) rest.remove_prefix(1);
  for (bool has_more = true; has_more;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    has_more = item.size() < rest.size();
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    if (item.empty()) refuse("a name is missing");
    if (item.starts_with('^')) refuse("^ stands once, before the first name");
    const std::size_t slash = item.find('/');
    if (slash == std::string_view::npos) {
      choice.names_.emplace_back(item);
      continue;
    }
    const std::string host(item.substr(0, slash));
    const std::string_view bits_text = item.substr(slash + 1);
    unsigned bits = 0;
    const auto [end, failure] = std::from_chars(bits_text.data(), bits_text.data() + bits_text.size(), bits);
    Network network{};
    try {
      network.address =
          Address::parse_numeric(host.find(':') == std::string::npos ? host + ":0" : "[" + host + "]:0");
    } catch (const Error&) {
      refuse(fmt::format("'{}' is no network", item));
    }
    const std::size_t most = host_bytes(sockaddr_in_address(network.address)).size() * kByteBits;
    if (failure != std::errc{} || end != bits_text.data() + bits_text.size() || bits > most)
      refuse(fmt::format("'{}' is no network", item));
    network.prefix_bits = bits;
    choice.networks_.push_back(network);
  }
  return choice;
}

bool InterfaceChoice::allows(const InterfaceAddress& candidate) const noexcept {
  if (is_any()) return true;
  const auto is_named = [&](const std::string& name) {
    if (name.ends_with('*'))
      return std::string_view(candidate.interface)
          .starts_with(std::string_view(name).substr(0, name.size() - 1));
    return candidate.interface == name;
  };
  const auto is_inside = [&](const Network& network) {
    return is_in_network(candidate.address, network.address, network.prefix_bits);
  };
  const bool is_listed = std::ranges::any_of(names_, is_named) || std::ranges::any_of(networks_, is_inside);
  return is_listed != is_exclusion_;
}

Address choose_own_address(const InterfaceChoice& choice, const std::vector<InterfaceAddress>& candidates,
                           const Address& peer, const std::optional<Address>& routed) {
  std::vector<InterfaceAddress> allowed;
  for (const InterfaceAddress& one : candidates)
    if (one.is_up && choice.allows(one) && family_of(one.address) == family_of(peer)) allowed.push_back(one);
  const auto is_routed = [&](const InterfaceAddress& one) {
    return routed && is_in_network(one.address, *routed, ~0U);
  };
  const auto is_near = [&](const InterfaceAddress& one) {
    return is_in_network(peer, one.address, one.prefix_bits) && !one.address.is_loopback();
  };
  const auto is_wide = [](const InterfaceAddress& one) {
    return !one.address.is_loopback() && !is_of_one_link(one.address);
  };
  for (const auto& rule : {std::function<bool(const InterfaceAddress&)>(is_routed), {is_near}, {is_wide}}) {
    const auto found = std::ranges::find_if(allowed, rule);
    if (found != allowed.end()) return found->address.with_any_port();
  }
  if (!allowed.empty()) return allowed.front().address.with_any_port();
  throw Error(
      ErrorKind::InvalidArgument,
      fmt::format("COHORT_SOCKET_IFNAME='{}' leaves no {} address that is up to be reached at from {}; there "
                  "are: {}",
                  choice.text(), family_of(peer) == AF_INET ? "IPv4" : "IPv6", host_text(peer),
                  describe(candidates)));
}

Address choose_own_address(const InterfaceChoice& choice) {
  // Addresses of documentation, which nobody has: the way there is that to the default gateway.
  for (const char* const anybody : {"192.0.2.1:1", "[2001:db8::1]:1"}) {
    const Address peer = Address::parse_numeric(anybody);
    const std::optional<Address> routed = route::own_address_toward(peer);
    try {
      const Address own = choose_own_address(choice, interface_addresses(), peer, routed);
      if (!own.is_loopback()) return own;
    } catch (const Error&) {
      continue;  // none of this family
    }
  }
  return choose_own_address(choice, interface_addresses(), Address::parse_numeric("127.0.0.1:1"),
                            std::nullopt);
}

}  // namespace cohort
