// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cohort::topo {

/// Cores that share a memory.
struct NumaNode {
  unsigned number = 0;
  unsigned cores = 0;
  std::uint64_t memory_bytes = 0;
  std::string processors;  ///< as the kernel numbers them: "0-3,8-11"
};

struct Interface {
  std::string name;
  std::vector<std::string> addresses;
  unsigned mtu = 0;
  unsigned mbit_per_s = 0;  ///< 0: not known
  bool is_up = false;
};

/// A port of an RDMA device.
struct RdmaPort {
  std::string device;
  unsigned number = 1;
  std::string state;  ///< "ACTIVE"
  std::string rate;   ///< "100 Gb/sec (4X EDR)"
  std::string layer;  ///< "Ethernet", "InfiniBand"
};

/// One host, as its first rank sees it.
struct HostDescription {
  std::string name;
  std::string kernel;
  std::string processor;
  unsigned packages = 0;
  unsigned cores = 0;
  unsigned usable_processors = 0;
  std::uint64_t last_level_cache_bytes = 0;
  std::vector<NumaNode> memories;
  std::vector<Interface> interfaces;
  std::vector<RdmaPort> rdma_ports;
};

/// This host. Packages, cores and memories by hwloc where this was built with it, else by what the kernel
/// says.
[[nodiscard]] HostDescription describe_host();

/// As JSON in a line, and back. Throws InvalidArgument.
[[nodiscard]] std::string encode(const HostDescription& host);
[[nodiscard]] HostDescription decode_host(const std::string& text);

}  // namespace cohort::topo
