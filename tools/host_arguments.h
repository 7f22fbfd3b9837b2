// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/launch/hosts_launcher.h>

#include <CLI/CLI.hpp>
#include <string>

namespace cohort {

/// What starts ranks on other hosts, as it stands on a command line.
struct HostArguments {
  std::string hosts;
  std::string hostfile;
  std::string remote_shell;
  std::string agent_program;
  std::string directory;

  [[nodiscard]] bool are_given() const noexcept { return !hosts.empty() || !hostfile.empty(); }
};

/// --hosts, --hostfile, --rsh, --agent-program and --directory. `arguments` outlives parsing. Of no group
/// where that is empty.
void add_host_arguments(CLI::App& command, HostArguments& arguments, const std::string& group);

/// Once parsed. `ranks` of these hosts, all that they may have for 0. Throws InvalidArgument.
[[nodiscard]] HostsOptions hosts_from(const HostArguments& arguments, Rank ranks);
[[nodiscard]] Rank count_of_ranks(const HostsOptions& hosts);

}  // namespace cohort
