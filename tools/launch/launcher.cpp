// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/launcher.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/descriptor_limit.h>
#include <cohort/tools/launch/local_job.h>

#include <fmt/format.h>

namespace cohort {
namespace {

constexpr unsigned kDescriptorsPerRank = 3;  // two pipes and a pidfd
constexpr unsigned kDescriptorsBeside = 32;

void check(const LaunchOptions& options) {
  if (options.ranks == 0)
    throw Error(ErrorKind::InvalidArgument, "a job of 0 ranks was asked for: give at least 1");
  if (options.command.empty() || options.command.front().empty())
    throw Error(ErrorKind::InvalidArgument, "no program was given that the ranks should run");
}

}  // namespace

Task<int> launch(Engine& engine, LaunchOptions options) {
  check(options);
  std::optional<JobOutput> own_output;
  if (options.output == nullptr)
    own_output.emplace(engine, options.output_descriptor, options.errors_descriptor);
  JobOutput& output = options.output == nullptr ? *own_output : *options.output;
  std::optional<LocalJob> job;
  std::string refusal;
  const std::size_t needed =
      descriptor_limit::count_open() + kDescriptorsPerRank * std::size_t{options.ranks} + kDescriptorsBeside;
  (void)descriptor_limit::raise_to(needed);
  try {
    job.emplace(engine, options, output);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::ResourceLimit)
      throw Error(
          ErrorKind::ResourceLimit,
          fmt::format(
              "{}; for {} ranks the launcher may open up to {} files (ulimit -n, {} now) and takes {} "
              "processes (ulimit -u)",
              error.message(), options.ranks, needed, descriptor_limit::current(), options.ranks + 1));
    if (error.kind() != ErrorKind::InvalidArgument) throw;
    refusal = fmt::format("cohort: {}\n", error.message());
  }
  co_return co_await run_or_refuse(job, output, refusal);
}

}  // namespace cohort
