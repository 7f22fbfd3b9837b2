// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>
#include <cohort/engine/io/interfaces.h>
#include <cohort/engine/io/ports.h>
#include <cohort/engine/io/route.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/join/join_environment.h>
#include <cohort/tools/doctor/checks.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace cohort::doctor {
namespace {

constexpr std::uint64_t kUsualMtu = 1500;
constexpr std::uint64_t kLeastBuffer = 4 << 20;
constexpr std::uint64_t kLeastPorts = 1024;
constexpr std::uint64_t kFewMegabits = 1000;

std::string of_interface(const std::string& name, const char* file) {
  return fmt::format("/sys/class/net/{}/{}", name, file);
}

void check_interface(Findings& findings, const std::string& name, const std::string& addresses) {
  const auto mtu = number_in(of_interface(name, "mtu")).value_or(0);
  const auto speed = number_in(of_interface(name, "speed"));
  const std::string text =
      fmt::format("{}, MTU {}{}", addresses, mtu, speed ? fmt::format(", {} Mbit/s", *speed) : std::string());
  const std::string check = fmt::format("interface {}", name);
  if (speed && *speed > 0 && *speed < kFewMegabits)
    findings.problem(check, text,
                     "look at cable and switch, which have agreed on less than 1 Gbit/s; or choose another "
                     "interface with COHORT_SOCKET_IFNAME");
  else if (mtu < kUsualMtu)
    findings.note(check,
                  fmt::format("{}: less than {}, as it is right for tunnels and some clouds; cohort doctor "
                              "--peers measures what the network carries",
                              text, kUsualMtu));
  else
    findings.fine(check, text);
}

void check_interfaces(Findings& findings, const std::vector<InterfaceAddress>& all) {
  std::set<std::string> told;
  bool has_loopback = false;
  bool has_others = false;
  for (const InterfaceAddress& one : all) {
    if (one.address.is_loopback()) {
      has_loopback = has_loopback || one.is_up;
      continue;
    }
    has_others = has_others || one.is_up;
    if (!told.insert(one.interface).second) continue;
    std::string addresses;
    for (const InterfaceAddress& other : all) {
      if (other.interface != one.interface) continue;
      const std::string text = other.address.to_string();
      addresses += fmt::format("{}{}/{}", addresses.empty() ? "" : " ", text.substr(0, text.rfind(':')),
                               other.prefix_bits);
    }
    if (one.is_up)
      check_interface(findings, one.interface, addresses);
    else
      findings.problem(fmt::format("interface {}", one.interface), addresses + ", is down",
                       fmt::format("ip link set {} up, and look at its cable", one.interface));
  }
  if (!has_loopback)
    findings.problem("loopback", "has no address that is up: there is no TCP between ranks of this host",
                     "ip link set lo up");
  if (!has_others)
    findings.note("network", "no interface but loopback is up: ranks of this host alone can meet");
}

void check_choice(Findings& findings, const std::vector<InterfaceAddress>& all) {
  try {
    const InterfaceChoice choice = interfaces_from_environment();
    if (choice.is_any()) return;
    const auto is_allowed = [&](const InterfaceAddress& one) { return one.is_up && choice.allows(one); };
    if (std::ranges::none_of(all, is_allowed))
      findings.problem("COHORT_SOCKET_IFNAME",
                       fmt::format("'{}' leaves no interface that is up", choice.text()),
                       "name one of those above, or unset it");
    else
      findings.fine("COHORT_SOCKET_IFNAME", choice.text());
  } catch (const Error& error) {
    findings.problem("COHORT_SOCKET_IFNAME", std::string(error.message()), "write it so, or unset it");
  }
}

void check_ports(Findings& findings) {
  std::istringstream words(first_line("/proc/sys/net/ipv4/ip_local_port_range").value_or(""));
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  words >> low >> high;
  if (high != 0 && high - low + 1 < kLeastPorts)
    findings.problem("ports", fmt::format("the system gives {} to {}, {} in all", low, high, high - low + 1),
                     "sysctl net.ipv4.ip_local_port_range='32768 60999'");
  try {
    const auto range = ports_from_environment();
    if (range)
      findings.fine("COHORT_PORT_RANGE", fmt::format("{} to {}: {} ranks of this host at most", range->low,
                                                     range->high, range->count()));
  } catch (const Error& error) {
    findings.problem("COHORT_PORT_RANGE", std::string(error.message()), "write it so, or unset it");
  }
}

void check_buffers(Findings& findings) {
  for (const char* const name : {"tcp_rmem", "tcp_wmem"}) {
    std::istringstream words(first_line(fmt::format("/proc/sys/net/ipv4/{}", name)).value_or(""));
    std::uint64_t least = 0;
    std::uint64_t usual = 0;
    std::uint64_t most = 0;
    if (!(words >> least >> usual >> most) || most >= kLeastBuffer) continue;
    findings.problem("TCP buffers",
                     fmt::format("net.ipv4.{} lets them grow to {}: too little for a fast or far network",
                                 name, in_units(most)),
                     fmt::format("sysctl net.ipv4.{}='{} {} {}'", name, least, usual, 4 * kLeastBuffer));
  }
}

}  // namespace

void check_network(Findings& findings) {
  const std::vector<InterfaceAddress> all = interface_addresses();
  check_interfaces(findings, all);
  check_choice(findings, all);
  check_ports(findings);
  check_buffers(findings);
}

/// As far as it can be seen without anybody there.
void check_way_to_rank_0(Findings& findings) {
  const auto text = environment::text("COHORT_ADDR");
  if (!text || text->starts_with("unix:")) return;
  try {
    const Address address = Address::parse(*text);
    const auto own = route::own_address_toward(address);
    if (!own)
      findings.problem("way to rank 0", fmt::format("there is no route to COHORT_ADDR={}", *text),
                       "ip route add, or give an address of rank 0's host in a network that this host is in");
    else if (address.is_loopback())
      findings.note("way to rank 0",
                    fmt::format("COHORT_ADDR={} is this host itself, for every host", *text));
    else
      findings.fine("way to rank 0", fmt::format("COHORT_ADDR={} by {}", *text, own->to_string()));
  } catch (const Error& error) {
    findings.problem("way to rank 0", std::string(error.message()), "write COHORT_ADDR=HOST:PORT");
  }
}

}  // namespace cohort::doctor
