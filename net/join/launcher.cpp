// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/launcher.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/ancestry.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/host.h>
#include <cohort/net/auth/crypto.h>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <charconv>
#include <span>
#include <string_view>

namespace cohort {
namespace {

/// What a launcher says by its environment.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_size;          ///< equal to the size: all on one host
  std::array<const char*, 2> job;  ///< tells its jobs apart; null: the launcher's process does
};
/// Slurm last: with it the others start their ranks.
/// The names are part of the address: those of bindings/python/cohort/_launch.py.
constexpr std::array kLaunchers = {
    Launcher{"torch.distributed.run", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"MASTER_PORT"}},
    Launcher{"Open MPI",
             "OMPI_COMM_WORLD_RANK",
             "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_SIZE",
             {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    Launcher{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {}},
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", {}},
};

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

std::optional<Rank> whole_number(const char* variable) {
  const auto text = environment::text(variable);
  Rank value = 0;
  if (!text) return std::nullopt;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failure != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return value;
}

/// Where RANK is set by hand, rank 0 at a loopback address says that all are on this host.
std::optional<std::string> local_size_of(const Launcher& launcher) {
  const auto local = environment::text(launcher.local_size);
  if (local || std::string_view(launcher.rank) != "RANK") return local;
  const auto master = environment::text("MASTER_ADDR").value_or("");
  const bool is_here = master == "127.0.0.1" || master == "localhost" || master == "::1";
  return is_here ? environment::text(launcher.size) : std::nullopt;
}

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

struct Statement {
  const Launcher* launcher;
  Rank rank;
  Rank size;
  std::string local;  ///< empty where it does not say it
};

std::optional<Statement> statement_of(const Launcher& launcher, bool is_of_known_hosts) {
  const auto rank = whole_number(launcher.rank);
  const auto size = whole_number(launcher.size);
  const auto local = local_size_of(launcher);
  if (!rank || !size || local.has_value() != is_of_known_hosts) return std::nullopt;
  return Statement{&launcher, *rank, *size, local.value_or("")};
}

/// Which of two tells the rank. Environments are inherited, so that either may have started the other; what
/// has one process on each host is there to start others.
Statement inner_of(const Statement& first, const Statement& next) {
  const bool is_same = first.rank == next.rank && first.size == next.size;
  if (is_same || first.size <= 1 || next.size <= 1 || next.launcher == &kLaunchers.back()) return first;
  if ((first.local == "1") != (next.local == "1")) return first.local == "1" ? next : first;
  throw Error(
      ErrorKind::InvalidArgument,
      fmt::format(
          "this process is rank {} of {} by {} ({}, {}), and rank {} of {} by {} ({}, {}), and which of "
          "them started the other is not known: set COHORT_RANK and COHORT_SIZE",
          first.rank, first.size, first.launcher->name, first.launcher->rank, first.launcher->size, next.rank,
          next.size, next.launcher->name, next.launcher->rank, next.launcher->size));
}

}  // namespace

std::optional<LaunchedPlace> place_by_launcher() {
  const bool has_address = environment::text("COHORT_ADDR").has_value();
  std::optional<Statement> first;
  for (const bool is_of_known_hosts : {true, false}) {
    if (first || (!is_of_known_hosts && !has_address)) break;
    for (const Launcher& launcher : kLaunchers) {
      const auto next = statement_of(launcher, is_of_known_hosts);
      if (next) first = first ? inner_of(*first, *next) : *next;
    }
  }
  if (!first) return std::nullopt;
  if (first->size <= 1) return LaunchedPlace{};
  if (has_address) return LaunchedPlace{first->rank, first->size, ""};
  const Launcher& launcher = *first->launcher;
  if (first->local == std::to_string(first->size))
    return LaunchedPlace{first->rank, first->size, address_of(launcher)};
  throw Error(
      ErrorKind::InvalidArgument,
      fmt::format("{} started {} ranks on several hosts ({}={}): set COHORT_ADDR=HOST:PORT of rank 0's "
                  "host and COHORT_SECRET_FILE for all of them, or COHORT_RANK=0 COHORT_SIZE=1 if each "
                  "is to be alone",
                  launcher.name, first->size, launcher.local_size, first->local));
}

void warn_of_unknown_place() {
  static std::array<std::atomic_flag, kVariables.size()> were_warned_of;
  for (std::size_t i = 0; i < kVariables.size(); ++i) {
    const Variables& variables = kVariables[i];
    const auto rank = whole_number(variables.rank);
    const auto size = whole_number(variables.size);
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
