// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/doctor_command.h>

#include <cohort/collectives/run.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/host.h>
#include <cohort/net/membership.h>
#include <cohort/tools/doctor/checks.h>
#include <cohort/tools/doctor/peers.h>
#include <cohort/tools/gathering.h>
#include <cohort/tools/print.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace cohort {
namespace {

constexpr int kProblemStatus = 1;

constexpr const char* kDoctorFooter = R"(
Examples:
  cohort doctor
  cohort run --hosts node1,node2,node3 --no-prefix -- cohort doctor --peers
  srun -N8 --mpi=pmix cohort doctor --peers --json

With --peers it runs as the ranks of a job, started as any program is: each host is looked at once, then all
pairs of hosts are measured in turn, each host in one pair at a time, and rank 0 prints everything.

Status: 0 when nothing is wrong; 1 when something is; 2 for wrong options.)";

struct DoctorArguments {
  bool looks_at_peers = false;
  bool is_json = false;
};

std::string report(const doctor::Findings& findings, const std::string& host,
                   const DoctorArguments& arguments) {
  return arguments.is_json ? doctor::as_json(findings.all(), host) : doctor::as_text(findings.all(), host);
}

/// What every rank does: texts begin with whether there is a problem.
Task<> examine(Communicator& comm, const DoctorArguments& arguments, bool& has_problems) {
  const Membership& membership = comm.membership();
  const std::vector<Rank> firsts = first_ranks_of_hosts(membership);
  std::string own;
  if (std::ranges::find(firsts, comm.rank()) != firsts.end()) {
    const doctor::Findings findings = doctor::check_host();
    own = (findings.has_problems() ? "1" : "0") + report(findings, membership.self().host, arguments);
  }
  const std::vector<std::string> texts = co_await gather_texts(comm, own);
  std::vector<std::string> hosts;
  for (const Rank rank : firsts) {
    hosts.push_back(membership.peers[rank].host);
    has_problems = has_problems || texts[rank].starts_with('1');
    if (comm.rank() == 0) print(texts[rank].substr(1));
  }
  const std::vector<doctor::Pair> pairs = co_await doctor::measure_pairs(comm);
  doctor::Findings between;
  doctor::judge(pairs, hosts, between);
  has_problems = has_problems || between.has_problems();
  if (comm.rank() == 0 && hosts.size() > 1) print(report(between, "between hosts", arguments));
}

int examine_peers(const DoctorArguments& arguments) {
  bool has_problems = false;
  bool is_alone = false;
  const RankFunction function = [&](Communicator& comm) -> Task<> {
    is_alone = comm.size() == 1;
    if (!is_alone) co_await examine(comm, arguments, has_problems);
  };
  const int status = run(function);
  if (is_alone)
    throw CLI::ValidationError(
        "--peers: one rank alone has no peers: start one on each host, as in cohort run --hosts node1,node2 "
        "--no-prefix -- cohort doctor --peers");
  if (status != 0) {
    fmt::print(
        stderr,
        "cohort: doctor: the ranks could not meet, or lost each other: the line above says between whom; "
        "cohort doctor on each host, without --peers, looks at that host alone\n");
    return status;
  }
  return has_problems ? kProblemStatus : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("doctor", "Look for what makes jobs fail or slow, here or between hosts");
  const auto arguments = std::make_shared<DoctorArguments>();
  command->add_flag("--peers", arguments->looks_at_peers,
                    "As the ranks of a job: all hosts, and between them");
  command->add_flag("--json", arguments->is_json, "A JSON object a line");
  command->footer(kDoctorFooter);
  command->callback([arguments, &status] {
    if (arguments->looks_at_peers) {
      status = examine_peers(*arguments);
      return;
    }
    const doctor::Findings findings = doctor::check_host();
    print(report(findings, host::name(), *arguments));
    status = findings.has_problems() ? kProblemStatus : 0;
  });
}

}  // namespace cohort
