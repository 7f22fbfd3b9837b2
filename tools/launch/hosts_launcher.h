// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/tools/launch/host_list.h>
#include <cohort/tools/launch/launcher.h>

#include <string>
#include <vector>

namespace cohort {

struct HostsOptions {
  std::vector<HostSlots> hosts;
  /// What starts a command on a host: these words, the host, the command.
  std::vector<std::string> remote_shell = {};
  /// The program there that has the subcommand run.
  std::string agent_program;
  /// In which the ranks run.
  std::string directory;
  /// Of rank 0, if the user knows better; else the launcher finds one.
  std::string address;
  /// By when all hosts have answered.
  Duration time_to_answer = std::chrono::minutes(1);
  /// After SIGKILL to the ranks, until what leads to them is ended.
  Duration time_to_hang_up = std::chrono::seconds(2);
};

/// ssh as it is used here: it never asks anything, and finds out by itself when a host has gone.
[[nodiscard]] std::vector<std::string> default_remote_shell();

/// As launch(), with ranks on several hosts, numbered host after host. On each an agent (agent.h) is started
/// over ssh, gets the job's secret through its standard input, and starts the ranks of that host. They meet
/// at an address of the first host on the way to the others.
///
/// A host that cannot be reached, or where the agent cannot be started, is told by name, and nothing runs
/// then; the status is that of the remote shell (255 of ssh), or 127. If this process is killed, agents end
/// their ranks, as they do when they hear nothing for kAgentPatience.
Task<int> launch_on_hosts(Engine& engine, HostsOptions hosts, LaunchOptions options);

}  // namespace cohort
