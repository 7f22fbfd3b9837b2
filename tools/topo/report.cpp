// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/topo/report.h>

#include <cohort/tools/launch/rank_list.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace cohort::topo {
namespace {

constexpr double kMega = 1 << 20;
constexpr double kGiga = 1 << 30;

std::string processors_of(const HostDescription& host) {
  std::string text = host.processor.empty() ? std::string("processor") : host.processor;
  if (host.packages != 0) text += fmt::format(", {} package{}", host.packages, host.packages == 1 ? "" : "s");
  text += fmt::format(", {} cores, {} processors to be used", host.cores, host.usable_processors);
  if (host.last_level_cache_bytes != 0)
    text += fmt::format(", {:.1f} MiB of last-level cache",
                        static_cast<double>(host.last_level_cache_bytes) / kMega);
  return text;
}

std::string describe(const NumaNode& node) {
  std::string text = fmt::format("memory {}: processors {}", node.number, node.processors);
  if (node.cores != 0) text += fmt::format(", {} cores", node.cores);
  if (node.memory_bytes != 0)
    text += fmt::format(", {:.1f} GiB", static_cast<double>(node.memory_bytes) / kGiga);
  return text;
}

std::string describe(const Interface& interface) {
  return fmt::format(
      "{}: {}, MTU {}{}{}", interface.name, fmt::join(interface.addresses, " "), interface.mtu,
      interface.mbit_per_s != 0 ? fmt::format(", {} Mbit/s", interface.mbit_per_s) : std::string(),
      interface.is_up ? "" : ", down");
}

std::string describe(const RdmaPort& port) {
  return fmt::format("RDMA {} port {}: {}, {}, {}", port.device, port.number, port.state, port.rate,
                     port.layer);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// What stands in a host's box, line by line.
std::vector<std::string> lines_of(const HostOfJob& one) {
  std::vector<std::string> lines{processors_of(one.host), one.host.kernel};
  for (const NumaNode& node : one.host.memories) lines.push_back(describe(node));
  for (const Interface& interface : one.host.interfaces) lines.push_back(describe(interface));
  for (const RdmaPort& port : one.host.rdma_ports) lines.push_back(describe(port));
  if (!one.same_machine_as.empty())
    lines.push_back(
        fmt::format("one machine with the host{} of rank{} {}", one.same_machine_as.size() > 1 ? "s" : "",
                    one.same_machine_as.size() > 1 ? "s" : "", fmt::join(one.same_machine_as, ", ")));
  return lines;
}

}  // namespace

std::string as_text(const std::vector<HostOfJob>& hosts, const std::string& transport) {
  std::string text;
  for (const HostOfJob& one : hosts) {
    text += fmt::format("{}\n", one.host.name);
    for (const std::string& line : lines_of(one)) text += fmt::format("  {}\n", line);
    if (one.ranks.empty()) continue;
    text += fmt::format("  {}{}{}\n", describe_ranks(one.ranks), one.ranks.size() > 1 ? " share memory" : "",
                        one.address.empty() ? "" : ", reached at " + one.address);
    for (std::size_t i = 0; i < one.ranks.size(); ++i)
      text += fmt::format("    rank {} on processors {}\n", one.ranks[i], one.cores[i]);
  }
  if (!transport.empty())
    text += fmt::format(
        "transport: {}{}\n", transport,
        hosts.size() > 1 ? ", between hosts; within a host shared memory, unless one is forced" : "");
  return text;
}

std::string as_json(const std::vector<HostOfJob>& hosts, const std::string& transport) {
  nlohmann::json json;
  json["transport"] = transport;
  json["hosts"] = nlohmann::json::array();
  for (const HostOfJob& one : hosts) {
    auto host = nlohmann::json::parse(encode(one.host));
    host["ranks"] = one.ranks;
    host["processors_of_ranks"] = one.cores;
    host["address"] = one.address;
    host["same_machine_as"] = one.same_machine_as;
    json["hosts"].push_back(std::move(host));
  }
  return json.dump(2) + "\n";
}

std::string as_svg(const std::vector<HostOfJob>& hosts, const std::string& transport) {
  constexpr double kLine = 16;
  constexpr double kWidth = 560;
  constexpr double kGap = 20;
  constexpr double kRank = 34;
  constexpr double kRanksInRow = 15;
  constexpr double kBus = 30;  // where the network runs down, left of the boxes
  double y = kGap;
  std::string body;
  double first_middle = 0;
  double last_middle = 0;
  for (const HostOfJob& one : hosts) {
    const std::vector<std::string> lines = lines_of(one);
    const double rows = static_cast<double>((one.ranks.size() + 14) / 15);
    const double height = kLine * (static_cast<double>(lines.size()) + 2) + rows * kRank + 8;
    const double middle = y + height / 2;
    if (first_middle == 0) first_middle = middle;
    last_middle = middle;
    body += fmt::format(
        "<line x1=\"{0}\" y1=\"{1:.0f}\" x2=\"{2}\" y2=\"{1:.0f}\" stroke=\"#0072b2\" stroke-width=\"2\"/>\n",
        kBus, middle, kBus + kGap);
    body += fmt::format(
        "<rect x=\"{}\" y=\"{:.0f}\" width=\"{}\" height=\"{:.0f}\" rx=\"6\" fill=\"#f7f7f7\" "
        "stroke=\"#333\"/>\n",
        kBus + kGap, y, kWidth, height);
    double at = y + kLine + 2;
    body += fmt::format("<text x=\"{}\" y=\"{:.0f}\" font-weight=\"bold\">{}</text>\n", kBus + kGap + 10, at,
                        escaped(one.host.name));
    for (const std::string& line : lines)
      body += fmt::format("<text x=\"{}\" y=\"{:.0f}\">{}</text>\n", kBus + kGap + 10, at += kLine,
                          escaped(line));
    at += kLine / 2;
    for (std::size_t i = 0; i < one.ranks.size(); ++i) {
      const double x = kBus + kGap + 10 + static_cast<double>(i % 15) * (kWidth - 20) / kRanksInRow;
      const double top = at + static_cast<double>(i / 15) * kRank;
      body += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"30\" height=\"26\" rx=\"4\" fill=\"#56b4e9\"/>"
          "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
          x, top, x + 15, top + 17, one.ranks[i]);
    }
    y += height + kGap;
  }
  if (hosts.size() > 1)
    body += fmt::format(
        "<line x1=\"{0}\" y1=\"{1:.0f}\" x2=\"{0}\" y2=\"{2:.0f}\" stroke=\"#0072b2\" stroke-width=\"2\"/>\n"
        "<text x=\"{3}\" y=\"{4:.0f}\" transform=\"rotate(-90 {3} {4:.0f})\">{5}</text>\n",
        kBus, first_middle, last_middle, kBus - 8, (first_middle + last_middle) / 2, escaped(transport));
  const double width = kBus + 2 * kGap + kWidth;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<title>hosts and ranks</title>\n{2}</svg>\n",
      width, y, body);
}

}  // namespace cohort::topo
