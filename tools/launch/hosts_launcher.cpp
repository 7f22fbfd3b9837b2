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
  if (job) {
    const int status = co_await job->run();
    co_return status == 0 && output.has_lost_text() ? Supervisor::kLostOutputStatus : status;
  }
  co_await output.write(OutputChannel::errors, refusal);
  co_return Supervisor::kCannotStartStatus;
}

}  // namespace cohort
