// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/processes/process_job.h>

#include <cohort/engine/world/random.h>

#include <fmt/format.h>

namespace cohort::soak {
namespace {

constexpr Rank kMostProcesses = 5;

std::string_view describe_copies(const ProcessJob& job) {
  if (!job.copies_by_kernel) return " without the kernel's copies";
  return job.is_first_without ? " without the kernel's copies on rank 0" : "";
}

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

ProcessJob draw_process_job(std::uint64_t seed, const ProcessJobOptions& options) {
  world::Random random(seed);
  ProcessJob job;
  job.seed = seed;
  job.takes = options.takes;
  job.longest_stop = options.longest_stop;
  job.ranks = static_cast<Rank>(random.between(2, kMostProcesses));
  const std::vector<std::string> any = {"shm", "tcp", std::string(kTwoHosts)};
  const std::vector<std::string>& transports = options.transports.empty() ? any : options.transports;
  job.transport = transports[random.below(transports.size())];
  job.is_by_epoll = random.chance(25);
  job.copies_by_kernel = random.chance(75);
  constexpr unsigned kPercent[] = {0, 50, 100};
  job.percent_allocated = random.pick(kPercent);
  job.stoppers = random.chance(25) ? 2 : 1;
  job.is_first_without = random.chance(25);
  job.connections = random.chance(25) ? static_cast<unsigned>(random.between(2, 4)) : 1;
  return job;
}

std::string describe(const ProcessJob& job) {
  return fmt::format("{} ranks over {}{}{}{}, {} % of their buffers mapped; {} stopped at once, up to {:g} s",
                     job.ranks, job.transport == kTwoHosts ? "shm+tcp of two hosts" : job.transport,
                     job.connections > 1 ? fmt::format(" by {} connections", job.connections) : "",
                     job.is_by_epoll ? " and epoll" : "", describe_copies(job), job.percent_allocated,
                     job.stoppers, seconds_of(job.longest_stop));
}

}  // namespace cohort::soak
