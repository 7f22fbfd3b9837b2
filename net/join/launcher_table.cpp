// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/launcher_table.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/join/hostlist.h>
#include <cohort/net/join/pmi/exchange.h>

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace cohort {
namespace {

using environment::text;

constexpr Launcher kTorch{"torch.distributed.run", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"MASTER_PORT"}};
constexpr Launcher kOpenMpi{"Open MPI",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}};
constexpr Launcher kMpich{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {}};
constexpr Launcher kSlurm{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", {}};
constexpr Launcher kKubeflow{"Kubeflow", "PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE", {}};
constexpr Launcher kKubeflowByHand{"Kubeflow", "RANK", "WORLD_SIZE", "NPROC_PER_NODE", {}};
/// Slurm last: with it the others start their ranks.
constexpr std::array kInOrder = {&kTorch, &kOpenMpi, &kMpich, &kSlurm};

bool is_loopback(std::string_view host) {
  return host == "127.0.0.1" || host == "localhost" || host == "::1";
}

/// In a pod of a PyTorchJob RANK and WORLD_SIZE are of nodes, until torchrun starts its workers.
bool is_of_nodes() {
  if (text("GROUP_RANK") || text("LOCAL_RANK") || text("LOCAL_WORLD_SIZE")) return false;
  const bool is_in_pod = text("KUBERNETES_PORT") || text("KUBERNETES_SERVICE_HOST");
  return text("PET_NNODES") || (is_in_pod && text("NPROC_PER_NODE"));
}

/// Where RANK is set by hand, rank 0 at a loopback address says that all are on this host.
void complete_torch(LaunchStatement& statement) {
  const std::string master = text("MASTER_ADDR").value_or("");
  if (is_loopback(master)) {
    if (statement.local.empty()) statement.local = std::to_string(statement.size);
  } else {
    statement.master = master;
  }
}

/// The first node of a step has its first task, unless the tasks were laid out by hand.
void complete_slurm(LaunchStatement& statement) {
  const auto nodes = text("SLURM_STEP_NODELIST");
  const std::string layout = text("SLURM_DISTRIBUTION").value_or("");
  if (!nodes || layout.starts_with("arbitrary") || statement.local.empty()) return;
  statement.master = expand_hostlist(*nodes, "SLURM_STEP_NODELIST").front();
}

std::optional<LaunchStatement> statement_of(const Launcher& launcher) {
  const auto rank = launched_number(launcher.rank);
  const auto size = launched_number(launcher.size);
  if (!rank || !size) return std::nullopt;
  LaunchStatement statement;
  statement.launcher = &launcher;
  statement.rank = *rank;
  statement.size = *size;
  statement.local = text(launcher.local_size).value_or("");
  if (&launcher == &kTorch) complete_torch(statement);
  if (&launcher == &kSlurm) complete_slurm(statement);
  if (&launcher != &kTorch) statement.has_exchange = pmi::is_offered_to(*rank, *size);
  return statement;
}

std::optional<LaunchStatement> statement_of_kubeflow() {
  if (!is_of_nodes()) return std::nullopt;
  const Launcher& launcher = text("PET_NNODES") ? kKubeflow : kKubeflowByHand;
  const auto rank = launched_number(launcher.rank);
  const auto size = launched_number(launcher.size);
  if (!rank || !size) return std::nullopt;
  const std::string each = text(launcher.local_size).value_or("1");
  if (each != "1")
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format(
            "this process is that of node {} of {} ({}, {}), which is to have {}={} ranks: start them by "
            "torchrun, or by cohort run -n {} --nodes {} --node-rank {} -- PROGRAM",
            *rank, *size, launcher.rank, launcher.size, launcher.local_size, each, each, *size, *rank));
  LaunchStatement statement;
  statement.launcher = &launcher;
  statement.rank = *rank;
  statement.size = *size;
  statement.local = "1";
  statement.master = text("PET_MASTER_ADDR").value_or(text("MASTER_ADDR").value_or(""));
  return statement;
}

void refuse_half(const char* set, const char* missing, const char* launcher) {
  throw Error(
      ErrorKind::InvalidArgument,
      fmt::format(
          "{}={} is set and {} is not, of which {} sets both: set it, or COHORT_RANK and COHORT_SIZE, "
          "which are 0 and 1 for a process that is to be alone",
          set, text(set).value_or(""), missing, launcher));
}

}  // namespace

std::optional<Rank> launched_number(const char* variable) {
  const auto digits = text(variable);
  Rank value = 0;
  if (!digits) return std::nullopt;
  const auto [end, failure] = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  if (failure != std::errc{} || end != digits->data() + digits->size()) return std::nullopt;
  return value;
}

bool is_outermost(const Launcher& launcher) noexcept { return &launcher == &kSlurm; }

std::vector<LaunchStatement> launch_statements() {
  std::vector<LaunchStatement> statements;
  if (auto kubeflow = statement_of_kubeflow()) statements.push_back(*std::move(kubeflow));
  const bool is_torch_of_nodes = is_of_nodes();
  for (const Launcher* const launcher : kInOrder) {
    if (launcher == &kTorch && is_torch_of_nodes) continue;
    if (auto statement = statement_of(*launcher)) statements.push_back(*std::move(statement));
  }
  return statements;
}

void refuse_half_places() {
  for (const Launcher* const launcher : {&kTorch, &kOpenMpi, &kMpich, &kSlurm, &kKubeflow}) {
    for (const char* const variable : {launcher->rank, launcher->size})
      if (const auto value = text(variable); value && !launched_number(variable))
        throw Error(ErrorKind::InvalidArgument,
                    fmt::format("{}='{}' of {} is no whole number: set COHORT_RANK and COHORT_SIZE", variable,
                                *value, launcher->name));
    const bool has_rank = text(launcher->rank).has_value();
    const bool has_size = text(launcher->size).has_value();
    // A batch script is a process of Slurm without a step.
    const bool is_script = launcher == &kSlurm && has_rank;
    if (has_rank == has_size || is_script) continue;
    refuse_half(has_rank ? launcher->rank : launcher->size, has_rank ? launcher->size : launcher->rank,
                launcher->name);
  }
  if (text("JOB_COMPLETION_INDEX"))
    refuse_half("JOB_COMPLETION_INDEX", "COHORT_SIZE",
                "an Indexed Job of Kubernetes with that in its template");
}

}  // namespace cohort
