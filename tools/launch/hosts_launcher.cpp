// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/hosts_launcher.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/descriptor_limit.h>
#include <cohort/tools/launch/hosts_job.h>

#include <fmt/format.h>

#include <optional>

namespace cohort {
namespace {

constexpr std::size_t kDescriptorsPerHost = 5;  // three pipes, the one to it opened twice, and a pidfd
constexpr std::size_t kDescriptorsOfOwn = 32;

}  // namespace

std::vector<std::string> default_remote_shell() {
  return {"ssh",
          "-o",
          "BatchMode=yes",
          "-o",
          "ConnectTimeout=10",
          "-o",
          "ServerAliveInterval=5",
          "-o",
          "ServerAliveCountMax=3",
          "-o",
          "ControlPath=none",
          "-x",
          "-a",
          "-T"};
}

Task<int> launch_on_hosts(Engine& engine, HostsOptions hosts, LaunchOptions options) {
  JobOutput output(engine, options.output_descriptor, options.errors_descriptor);
  (void)descriptor_limit::raise_to(descriptor_limit::count_open() + kDescriptorsPerHost * hosts.hosts.size() +
                                   kDescriptorsOfOwn);
  std::optional<HostsJob> job;
  std::string refusal;
  try {
    job.emplace(engine, hosts, options, output);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::InvalidArgument) throw;
    refusal = fmt::format("cohort: {}\n", error.message());
  }
  co_return co_await run_or_refuse(job, output, refusal);
}

}  // namespace cohort
