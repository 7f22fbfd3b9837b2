// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/explain/job.h>

#include <cohort/collectives/run.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tools/bench/options.h>
#include <cohort/tools/explain/report.h>
#include <cohort/tools/print.h>

#include <fmt/format.h>

namespace cohort::explain {
namespace {

constexpr Rank kDefaultRanks = 2;

std::vector<std::size_t> sizes_of(Operator op, const Options& options) {
  return !op->has_data ? std::vector<std::size_t>{0} : options.sizes_bytes;
}

void print_all(const Communicator& comm, const Options& options) {
  Report report(options, comm.size(), comm.transport());
  for (const Operator op : options.operators) {
    print(report.begin(op));
    for (const std::size_t asked : sizes_of(op, options)) {
      const std::size_t bytes = bench::shape_of(op, asked, size_bytes(options.type), comm.size()).size_bytes;
      const Explanation explanation =
          comm.explain(op, options.type, bytes, options.algorithm, options.determinism);
      print(report.row(op, bytes, explanation));
    }
  }
  print(report.machine(comm.engine().platform()));
  print(report.measured(comm.reach()));
}

/// What every rank does. The others have done their part by joining.
Task<> explain_all(Communicator& comm, const Options& options) {
  if (comm.rank() == 0) print_all(comm, options);
  co_return;
}

int run_as_rank(const RankFunction& function, const Options& options, CommunicatorOptions communicator) {
  if (options.ranks && *options.ranks != communicator.join.size)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("--ranks {} in a job of {} (COHORT_SIZE): leave it out, or unset COHORT_RANK",
                            *options.ranks, communicator.join.size));
  return run(function, std::move(communicator));
}

}  // namespace

int run_job(const Options& options) {
  const RankFunction function = [&](Communicator& comm) { return explain_all(comm, options); };
  CommunicatorOptions communicator = CommunicatorOptions::from_environment();
  if (!options.transport.empty()) communicator.transport = options.transport;
  const bool is_in_job = communicator.join.size > 1 || environment::text("COHORT_RANK");
  if (is_in_job) return run_as_rank(function, options, std::move(communicator));
  communicator.join = JoinOptions();
  communicator.is_isolated = true;
  return run_threads(options.ranks.value_or(kDefaultRanks), function, std::move(communicator));
}

}  // namespace cohort::explain
