// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>
#include <cohort/tools/topo/host_description.h>

#include <string>
#include <vector>

namespace cohort::topo {

/// A host of a job, and the ranks that share its memory.
struct HostOfJob {
  HostDescription host;
  std::vector<Rank> ranks;         ///< none: there is no job
  std::string address;             ///< by which others reach them
  std::vector<std::string> cores;  ///< of each rank: those that it may run on
  /// First ranks of other hosts that are containers of the same machine.
  std::vector<Rank> same_machine_as{};
};

[[nodiscard]] std::string as_text(const std::vector<HostOfJob>& hosts, const std::string& transport);
/// One object, over several lines.
[[nodiscard]] std::string as_json(const std::vector<HostOfJob>& hosts, const std::string& transport);
/// A box for each host with its memories, cores and ranks in it, all at one network.
[[nodiscard]] std::string as_svg(const std::vector<HostOfJob>& hosts, const std::string& transport);

}  // namespace cohort::topo
