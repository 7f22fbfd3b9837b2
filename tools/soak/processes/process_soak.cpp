// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/processes/process_soak.h>

#include <cohort/engine/when_all.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/soak/processes/stops.h>

#include <fmt/format.h>

namespace cohort::soak {
namespace {

/// What a job may take besides its time: joining, and ending what is under way while ranks are stopped.
constexpr Duration kGrace = std::chrono::seconds(240);

/// The job was ended because this program was asked to end.
bool is_interrupted(int status) noexcept {
  return status == 128 + static_cast<int>(ProcessSignal::interrupt) ||
         status == 128 + static_cast<int>(ProcessSignal::terminate);
}

using Environment = std::vector<std::pair<std::string, std::string>>;

Environment environment_of(const ProcessJob& job) {
  Environment environment;
  // Ranks of two hosts find shared memory and TCP by themselves.
  if (job.transport != kTwoHosts) environment.emplace_back("COHORT_TRANSPORT", job.transport);
  if (job.connections > 1)
    environment.emplace_back("COHORT_TCP_CONNECTIONS", fmt::format("{}", job.connections));
  if (job.is_by_epoll) environment.emplace_back("COHORT_IO", "epoll");
  if (!job.copies_by_kernel) environment.emplace_back("COHORT_CMA", "0");
  return environment;
}

/// The status of the job, as launch() gives it.
int start(const ProcessJob& job, const ProcessSoakOptions& options, std::uint64_t& stops) {
  Engine engine({.spin = Duration::zero()});  // the cores belong to the ranks
  LaunchOptions launching;
  launching.ranks = job.ranks;
  launching.command = options.rank_command;
  launching.command.push_back(std::to_string(job.seed));
  launching.timeout = job.takes + kGrace;
  launching.environment = environment_of(job);
  launching.beside = [&](std::vector<ChildProcess*> ranks) -> Task<> {
    std::vector<Task<>> stoppers;
    for (unsigned i = 0; i < job.stoppers; ++i)
      stoppers.push_back(
          stop_now_and_then(engine, ranks, world::Random(job.seed + i), job.longest_stop, stops));
    co_await when_all(stoppers);
  };
  return engine.run(launch(engine, std::move(launching)));
}

void print_sum(std::uint64_t done, std::uint64_t failed, std::FILE* out) {
  fmt::print(out, "{} passed, {} failed\n", done - failed, failed);
}

}  // namespace

int run_process_jobs(const ProcessSoakOptions& options, std::FILE* out) {
  std::uint64_t failed = 0;
  std::uint64_t done = 0;
  for (; done < options.jobs; ++done) {
    const ProcessJob job = draw_process_job(options.first_seed + done, options.job);
    fmt::print(out, "seed {}: {}\n", job.seed, describe(job));
    std::fflush(out);
    std::uint64_t stops = 0;
    const int status = start(job, options, stops);
    fmt::print(out, "seed {}: ranks were stopped {} times\n", job.seed, stops);
    if (is_interrupted(status)) {
      print_sum(done, failed, out);
      fmt::print(out, "interrupted: {} of {} jobs were run; go on with --seed {}\n", done, options.jobs,
                 job.seed);
      std::fflush(out);
      return status;
    }
    if (status == 0) continue;
    ++failed;
    fmt::print(out,
               "FAILED seed {}: status {}\n  again: cohort soak --processes --seed {} --jobs 1, and the same "
               "options\n",
               job.seed, status, job.seed);
  }
  print_sum(done, failed, out);
  std::fflush(out);
  return failed == 0 ? 0 : 1;
}

}  // namespace cohort::soak
