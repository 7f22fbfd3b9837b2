// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/launcher.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/ports.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/ancestry.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/host.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/join/join_options.h>
#include <cohort/net/join/launcher_table.h>
#include <cohort/net/join/pmi/exchange.h>
#include <cohort/net/join/table_place.h>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <span>
#include <string_view>

namespace cohort {
namespace {

struct Variables {
  const char* launcher;
  const char* rank;
  const char* size;
};
constexpr std::array kVariables = {
    Variables{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Variables{"MPICH's mpiexec, or another that speaks PMI", "PMI_RANK", "PMI_SIZE"},
    Variables{"Slurm's srun", "SLURM_PROCID", "SLURM_NTASKS"},
    Variables{"torchrun, or another that sets RANK", "RANK", "WORLD_SIZE"},
};

/// Counts how often torchrun has started the ranks of a job again.
constexpr const char* kRound = "TORCHELASTIC_RESTART_COUNT";

std::string job_of(const Launcher& launcher) {
  for (const char* const variable : launcher.job)
    if (variable != nullptr)
      if (const auto text = environment::text(variable)) return *text;
  return ancestor_without(launcher.rank);
}

std::string address_of(const Launcher& launcher) {
  const std::string known =
      fmt::format("{}|{}|{}", launcher.name, job_of(launcher), environment::text(kRound).value_or(""));
  const auto digest = crypto::sha256(std::as_bytes(std::span(known)));
  std::string tag;
  for (std::size_t i = 0; i < 8; ++i) tag += fmt::format("{:02x}", static_cast<unsigned>(digest[i]));
  return fmt::format("unix:cohort-{}-{}", host::user_id(), tag);
}

/// The same on all hosts of a job, another for each start of it.
std::string start_of(const LaunchStatement& statement) {
  std::string start;
  if (is_outermost(*statement.launcher)) {
    for (const char* const variable : {"SLURM_JOB_ID", "SLURM_STEP_ID"})
      start += fmt::format("{}.", environment::text(variable).value_or(""));
  } else {
    for (const char* const variable : {"TORCHELASTIC_RUN_ID", "MASTER_PORT", kRound})
      start += fmt::format("{}.", environment::text(variable).value_or(""));
  }
  return start;
}

/// Which of two tells the rank. Environments are inherited, so that either may have started the other; what
/// has one process on each host is there to start others.
LaunchStatement inner_of(const LaunchStatement& first, const LaunchStatement& next) {
  const bool is_same = first.rank == next.rank && first.size == next.size;
  if (is_same && first.local.empty() && !next.local.empty()) return next;  // it says more, as srun of PMI
  if (is_same || first.size <= 1 || next.size <= 1 || is_outermost(*next.launcher)) return first;
  if ((first.local == "1") != (next.local == "1")) return first.local == "1" ? next : first;
  throw Error(
      ErrorKind::InvalidArgument,
      fmt::format(
          "this process is rank {} of {} by {} ({}, {}), and rank {} of {} by {} ({}, {}), and which of "
          "them started the other is not known: set COHORT_RANK and COHORT_SIZE",
          first.rank, first.size, first.launcher->name, first.launcher->rank, first.launcher->size, next.rank,
          next.size, next.launcher->name, next.launcher->rank, next.launcher->size));
}

std::optional<LaunchStatement> chosen_statement(bool has_address) {
  const std::vector<LaunchStatement> all = launch_statements();
  std::optional<LaunchStatement> chosen;
  for (const bool is_complete : {true, false}) {
    if (chosen || (!is_complete && !has_address)) break;
    for (const LaunchStatement& next : all)
      if (next.is_complete() == is_complete) chosen = chosen ? inner_of(*chosen, next) : next;
  }
  return chosen;
}

void meet_on_several_hosts(const LaunchStatement& statement, LaunchedPlace& place, std::string& how) {
  const Launcher& launcher = *statement.launcher;
  if (statement.has_exchange) {
    RootInfoParts parts = decode_root_info(pmi::exchange(statement.rank, how));
    place.address = std::move(parts.address);
    place.secret = std::move(parts.secret);
    return;
  }
  if (!statement.master.empty()) {
    place.job = start_of(statement);
    place.address = meeting_address(statement.master, fmt::format("{}|{}", launcher.name, place.job));
    how = "the host that it names";
    return;
  }
  throw Error(
      ErrorKind::InvalidArgument,
      fmt::format("{} started {} ranks on several hosts ({}={}): set COHORT_ADDR=HOST:PORT of rank 0's "
                  "host and COHORT_SECRET_FILE for all of them, or COHORT_RANK=0 COHORT_SIZE=1 if each "
                  "is to be alone",
                  launcher.name, statement.size, launcher.local_size, statement.local));
}

void say_once(const LaunchedPlace& place, std::string_view variables, std::string_view how) {
  static std::atomic_flag was_said;
  if (was_said.test_and_set()) return;
  log(LogLevel::info, "rank {} of {} by {} ({}), meeting by {}{}{}", place.rank, place.size, place.launcher,
      variables, how, place.address.empty() ? "" : " at ", place.address);
}

std::optional<LaunchedPlace> place_by_pmix_alone(bool has_address) {
  const std::optional<pmi::PmixPlace> found = pmi::place_by_pmix();
  if (!found) return std::nullopt;
  LaunchedPlace place;
  place.rank = found->rank;
  place.size = found->size;
  if (place.size <= 1) return place;
  place.launcher = "a launcher that speaks PMIx";
  std::string how = "COHORT_ADDR";
  if (!has_address) {
    RootInfoParts parts = decode_root_info(pmi::exchange(place.rank, how));
    place.address = std::move(parts.address);
    place.secret = std::move(parts.secret);
  }
  say_once(place, "PMIX_RANK", how);
  return place;
}

}  // namespace

std::string meeting_address(const std::string& host, std::string_view start) {
  constexpr PortRange kUsual{29400, 29899};
  const PortRange range = ports_from_environment().value_or(kUsual);
  const auto digest = crypto::sha256(std::as_bytes(std::span(start)));
  const unsigned number = static_cast<unsigned>(digest[0]) << 8 | static_cast<unsigned>(digest[1]);
  const unsigned port = range.low + number % range.count();
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::optional<LaunchedPlace> place_by_launcher() {
  const bool has_address = environment::text("COHORT_ADDR").has_value();
  if (auto place = place_by_rank_table()) {
    say_once(*place, "COHORT_RANK_TABLE", "the table's address");
    return place;
  }
  const std::optional<LaunchStatement> statement = chosen_statement(has_address);
  if (!statement) {
    auto place = place_by_pmix_alone(has_address);
    if (!place && launch_statements().empty()) refuse_half_places();
    return place;
  }
  LaunchedPlace place;
  if (statement->size <= 1) return place;
  const Launcher& launcher = *statement->launcher;
  place.rank = statement->rank;
  place.size = statement->size;
  place.launcher = launcher.name;
  std::string how = "COHORT_ADDR";
  if (!has_address && statement->is_on_one_host()) {
    place.address = address_of(launcher);
    how = "an address of this host";
  } else if (!has_address) {
    meet_on_several_hosts(*statement, place, how);
  }
  say_once(place, fmt::format("{}, {}", launcher.rank, launcher.size), how);
  return place;
}

std::optional<Rank> rank_of_indexed_job() {
  const auto rank = launched_number("JOB_COMPLETION_INDEX");
  if (rank) log(LogLevel::info, "rank {} by an Indexed Job of Kubernetes (JOB_COMPLETION_INDEX)", *rank);
  return rank;
}

void warn_of_unknown_place() {
  static std::array<std::atomic_flag, kVariables.size()> were_warned_of;
  for (std::size_t i = 0; i < kVariables.size(); ++i) {
    const Variables& variables = kVariables[i];
    const auto rank = launched_number(variables.rank);
    const auto size = launched_number(variables.size);
    if (!rank || size.value_or(1) <= 1) continue;
    if (were_warned_of[i].test_and_set()) return;
    log(LogLevel::warn,
        "this process runs as rank 0 of 1, though {}={} and {}={} say that {} started it as one of {}: set "
        "COHORT_RANK=${} COHORT_SIZE=${}, and COHORT_ADDR and COHORT_SECRET_FILE where they are on several "
        "hosts; COHORT_RANK=0 COHORT_SIZE=1 if each is to be alone",
        variables.rank, *rank, variables.size, *size, variables.launcher, *size, variables.rank,
        variables.size);
    return;
  }
}

}  // namespace cohort
