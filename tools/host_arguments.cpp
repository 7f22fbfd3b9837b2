// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/host_arguments.h>

#include <cohort/engine/system/environment.h>
#include <cohort/tools/launch/host_list.h>
#include <cohort/tools/launch/own_program.h>

#include <filesystem>
#include <sstream>
#include <vector>

namespace cohort {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

void add_host_arguments(CLI::App& command, HostArguments& arguments, const std::string& group) {
  CLI::Option* hosts = command.add_option("--hosts", arguments.hosts, "Start ranks on these hosts, over ssh");
  hosts->option_text("HOST[:COUNT],...");
  CLI::Option* file =
      command.add_option("--hostfile", arguments.hostfile, "On the hosts that this file names");
  file->option_text("FILE")->excludes(hosts);
  CLI::Option* shell = command.add_option("--rsh", arguments.remote_shell,
                                          "What starts a command on a host, in the place of ssh");
  shell->option_text("COMMAND");
  CLI::Option* agent = command.add_option("--agent-program", arguments.agent_program,
                                          "Where cohort-run is on the other hosts, if not where it is here");
  agent->option_text("PATH");
  CLI::Option* directory =
      command.add_option("--directory", arguments.directory, "In which the ranks run, if not in this one");
  directory->option_text("PATH");
  if (group.empty()) return;
  for (CLI::Option* option : {hosts, file, shell, agent, directory}) option->group(group);
}

HostsOptions hosts_from(const HostArguments& arguments, Rank ranks) {
  HostsOptions hosts;
  std::vector<HostSlots> named =
      arguments.hosts.empty() ? read_hostfile(arguments.hostfile) : parse_hosts(arguments.hosts);
  hosts.hosts = share_out(std::move(named), ranks);
  hosts.remote_shell = words_of(arguments.remote_shell);
  if (hosts.remote_shell.empty()) hosts.remote_shell = default_remote_shell();
  hosts.agent_program = arguments.agent_program.empty() ? own_program("cohort-run") : arguments.agent_program;
  hosts.directory =
      arguments.directory.empty() ? std::filesystem::current_path().string() : arguments.directory;
  const std::string address = environment::text("COHORT_ADDR").value_or("");
  if (!address.starts_with("unix:")) hosts.address = address;
  return hosts;
}

Rank count_of_ranks(const HostsOptions& hosts) {
  Rank ranks = 0;
  for (const HostSlots& host : hosts.hosts) ranks += host.slots;
  return ranks;
}

}  // namespace cohort
