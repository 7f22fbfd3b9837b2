// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/topo/host_description.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/interfaces.h>
#include <cohort/engine/system/affinity.h>
#include <cohort/engine/system/caches.h>
#include <cohort/engine/system/file_text.h>
#include <cohort/engine/system/host.h>
#include <cohort/tools/topo/numa.h>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace cohort::topo {
namespace {

std::string line_of(const std::string& path) {
  const std::string text = file_text(path).value_or("");
  return text.substr(0, text.find('\n'));
}

unsigned number_of(const std::string& path) {
  const long value = std::strtol(line_of(path).c_str(), nullptr, 10);
  return value > 0 ? static_cast<unsigned>(value) : 0;
}

std::string processor_name() {
  std::istringstream lines(file_text("/proc/cpuinfo").value_or(""));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": ") + 2, line.size()));
  return "";
}

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  for (const InterfaceAddress& one : interface_addresses()) {
    auto known = std::ranges::find(found, one.interface, &Interface::name);
    if (known == found.end()) {
      const std::string folder = "/sys/class/net/" + one.interface;
      found.push_back(
          {one.interface, {}, number_of(folder + "/mtu"), number_of(folder + "/speed"), one.is_up});
      known = found.end() - 1;
    }
    const std::string text = one.address.to_string();
    known->addresses.push_back(fmt::format("{}/{}", text.substr(0, text.rfind(':')), one.prefix_bits));
  }
  return found;
}

/// "4: ACTIVE" is what the kernel writes.
std::string after_colon(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::vector<RdmaPort> rdma_ports() {
  std::vector<RdmaPort> found;
  std::error_code failure;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", failure))
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", failure)) {
      const std::string folder = port.path().string();
      found.push_back({device.path().filename().string(),
                       static_cast<unsigned>(std::strtoul(port.path().filename().c_str(), nullptr, 10)),
                       after_colon(line_of(folder + "/state")), line_of(folder + "/rate"),
                       line_of(folder + "/link_layer")});
    }
  return found;
}

}  // namespace

HostDescription describe_host() {
  HostDescription host;
  utsname names{};
  ::uname(&names);
  host.name = host::name();
  host.kernel = fmt::format("{} {}", names.sysname, names.release);
  host.processor = processor_name();
  host.usable_processors = static_cast<unsigned>(affinity::usable_processors().size());
  host.last_level_cache_bytes = caches::last_level_bytes();
  describe_processors(host);
  host.interfaces = interfaces();
  host.rdma_ports = rdma_ports();
  return host;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NumaNode, number, cores, memory_bytes, processors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interface, name, addresses, mtu, mbit_per_s, is_up)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RdmaPort, device, number, state, rate, layer)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostDescription, name, kernel, processor, packages, cores,
                                   usable_processors, last_level_cache_bytes, memories, interfaces,
                                   rdma_ports)

std::string encode(const HostDescription& host) {
  return nlohmann::json(host).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

HostDescription decode_host(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<HostDescription>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("a host's description cannot be read: {}", error.what()));
  }
}

}  // namespace cohort::topo
