// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/host_list.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/join/hostlist.h>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

namespace cohort {
namespace {

constexpr Rank kMostSlots = 65536;
constexpr std::string_view kBlanks = " \t\r";

void add(std::vector<HostSlots>& hosts, const HostSlots& host) {
  const auto known = std::ranges::find(hosts, host.name, &HostSlots::name);
  if (known == hosts.end())
    hosts.push_back(host);
  else
    known->slots += host.slots;
}

/// Between commas, but not in brackets.
std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    items.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return items;
}

Rank slots_of(std::string_view item, std::string_view text, std::string_view source) {
  try {
    return static_cast<Rank>(environment::parse_number(source, text, 1, kMostSlots));
  } catch (const Error&) {
    throw Error(ErrorKind::InvalidArgument, fmt::format("{}: '{}': '{}' is no number of ranks, from 1 to {}",
                                                        source, item, text, kMostSlots));
  }
}

/// A name that begins with a dash would be an option of ssh.
void check_name(std::string_view name, std::string_view source) {
  const bool is_plain = !name.empty() && name.front() != '-' &&
                        name.find_first_of(" \t\r\n'\"\\$`;&|<>()") == std::string_view::npos;
  if (!is_plain)
    throw Error(ErrorKind::InvalidArgument, fmt::format("{}: '{}' is no name of a host", source, name));
}

void add_item(std::vector<HostSlots>& hosts, std::string_view item, std::string_view source) {
  HostSlots host;
  std::string_view name = item;
  const std::size_t bracket = item.find(']');
  const bool is_ipv6 = item.starts_with('[') && item.substr(0, bracket).find(':') != std::string_view::npos;
  const std::size_t colon = item.rfind(':');
  const bool has_slots = colon != std::string_view::npos && (!is_ipv6 || colon > bracket);
  if (has_slots) {
    host.slots = slots_of(item, item.substr(colon + 1), source);
    name = item.substr(0, colon);
  }
  if (is_ipv6) {
    host.name = name.substr(1, name.size() - (name.ends_with(']') ? 2 : 1));
    check_name(host.name, source);
    add(hosts, host);
    return;
  }
  if (name.find(':') != std::string_view::npos)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("{}: '{}': an IPv6 address needs brackets, as in [fe80::1%eth0]:4", source, item));
  for (std::string& one : expand_hostlist(name, source)) {
    host.name = std::move(one);
    check_name(host.name, source);
    add(hosts, host);
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

void add_line(std::vector<HostSlots>& hosts, std::string_view line, const std::string& source) {
  const std::size_t blank = line.find_first_of(kBlanks);
  if (blank == std::string_view::npos) {
    for (const std::string_view item : items_of(line)) add_item(hosts, item, source);
    return;
  }
  constexpr std::string_view kSlots = "slots=";
  const std::string_view rest = trimmed(line.substr(blank));
  if (!rest.starts_with(kSlots) || rest.find_first_of(kBlanks) != std::string_view::npos)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{}: '{}' after the host: only slots=COUNT can stand there", source, rest));
  add_item(hosts, fmt::format("{}:{}", line.substr(0, blank), rest.substr(kSlots.size())), source);
}

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (const std::string_view item : items_of(text)) add_item(hosts, item, "--hosts");
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::InvalidArgument, fmt::format("the host file '{}' cannot be read", path));
  std::vector<HostSlots> hosts;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const std::string_view content = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (!content.empty()) add_line(hosts, content, fmt::format("{}:{}", path, number));
  }
  if (hosts.empty())
    throw Error(ErrorKind::InvalidArgument, fmt::format("the host file '{}' names no host", path));
  return hosts;
}

std::vector<HostSlots> share_out(std::vector<HostSlots> hosts, Rank ranks) {
  const auto slots = std::accumulate(hosts.begin(), hosts.end(), std::size_t{0},
                                     [](std::size_t sum, const HostSlots& host) { return sum + host.slots; });
  const std::size_t wanted = ranks == 0 ? slots : ranks;
  if (wanted > slots || wanted > kMostSlots)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{} ranks on {} hosts with {} slots together: raise them, as in {}:{}", wanted,
                            hosts.size(), slots, hosts.empty() ? "HOST" : hosts.front().name,
                            hosts.empty() ? 1 : hosts.front().slots + 1));
  std::size_t left = wanted;
  for (HostSlots& host : hosts) {
    host.slots = static_cast<Rank>(std::min<std::size_t>(host.slots, left));
    left -= host.slots;
  }
  std::erase_if(hosts, [](const HostSlots& host) { return host.slots == 0; });
  return hosts;
}

}  // namespace cohort
