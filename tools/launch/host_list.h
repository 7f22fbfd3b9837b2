// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// A host of a job, and how many ranks it may have.
struct HostSlots {
  std::string name;  ///< as ssh takes it
  Rank slots = 1;

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

/// "a,b:4,n[01-04]:2,[fe80::1%eth0]:2": a host named twice has the ranks of both. Throws InvalidArgument.
[[nodiscard]] std::vector<HostSlots> parse_hosts(std::string_view text);

/// A host a line, or several as above: "NAME", "NAME:4", "NAME slots=4"; from # on it is a comment. Throws
/// InvalidArgument naming file and line.
[[nodiscard]] std::vector<HostSlots> read_hostfile(const std::string& path);

/// As many ranks as asked for, host after host; 0: all slots. Hosts that get none are left out. Throws
/// InvalidArgument where there are fewer slots.
[[nodiscard]] std::vector<HostSlots> share_out(std::vector<HostSlots> hosts, Rank ranks);

}  // namespace cohort
