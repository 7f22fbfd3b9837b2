// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/net/auth/secret.h>
#include <cohort/net/rank.h>
#include <cohort/tools/launch/master_port.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

class ChildProcess;
class JobOutput;
struct ExitStatus;

/// What a host has of a job on several: the launcher there has the last word on all but its ranks.
struct HostShare {
  Rank first_rank = 0;
  Rank size = 0;            ///< of the whole job
  std::string address;      ///< of rank 0
  MasterPlace master = {};  ///< port 0: not known, unless all ranks are here
  SecretOfOptions secret;   ///< of the job
  std::string name;         ///< of the host, for what is said of its ranks
  /// Called for each rank that fails by itself, before anything is done about it.
  std::function<void(const ExitStatus&)> when_failed = {};
};

struct LaunchOptions {
  unsigned ranks = 1;
  /// The program, by path or as found in PATH, and its arguments.
  std::vector<std::string> command = {};
  /// From the start of the last rank; nothing: as long as it takes.
  std::optional<Duration> timeout = {};
  /// "[3] " before each line that rank 3 writes. Lines stay whole in any case.
  bool prefix_output = true;
  /// A rank that fails ends no other: the program has a way on of its own.
  bool keeps_going = false;
  /// Variables for every rank besides those below, such as COHORT_TRANSPORT.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// Descriptors of this process that every rank gets under the same numbers; none of 0 to 2.
  std::vector<int> inherited = {};
  /// What runs beside the ranks, until all have ended: then it is cancelled. The processes outlive it.
  std::function<Task<>(std::vector<ChildProcess*>)> beside = {};
  /// When one rank fails, the others have this long to notice and to say so themselves before they get
  /// SIGTERM.
  Duration time_to_notice = std::chrono::seconds(1);
  /// From SIGTERM to SIGKILL; and from an interrupt of the launcher to the end of everything.
  Duration time_to_end = std::chrono::seconds(2);
  /// Where the output of the ranks goes, and their errors together with what the launcher has to say.
  int output_descriptor = 1;
  int errors_descriptor = 2;
  /// In their place, where somebody else writes there, too.
  JobOutput* output = nullptr;
  /// These ranks are only some of the job's.
  std::optional<HostShare> share = {};
};

/// Runs a program as the ranks of one job on this host, and leaves nothing of it behind: no process, no file.
///
/// Raises this process's soft limit on open files where the job needs more, and the ranks inherit that.
///
/// Each rank gets COHORT_RANK, COHORT_SIZE, COHORT_LOCAL_RANK, COHORT_LOCAL_SIZE, COHORT_ADDR (an abstract
/// Unix socket of a random name) and COHORT_SECRET_FD, the number of a descriptor from which it can read the
/// 32 bytes of the job's secret. For programs that were written for torchrun it gets RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, too, but for those that `environment` has; and
/// OMP_NUM_THREADS, the cores of this process over the ranks and at least 1, where there are several ranks
/// and it is unset. Its standard input is empty. What a rank started ends with the job; if the launcher is
/// killed, so is all of it.
///
/// Returns the job's status:
///  - 0 when every rank succeeded, 1 if output of theirs could not be written, as on a full disk;
///  - that of the first rank that failed, 128 + signal if one ended it. The others get time to notice by
///    themselves, then SIGTERM, then SIGKILL. With `keeps_going` all of them go on, each failure is told when
///    it happens, and the status is 0 if any rank succeeds;
///  - 124 after the timeout, when the ranks are told to end likewise;
///  - 128 + signal after SIGINT, SIGTERM or SIGHUP, which the ranks get too; a second one ends the job at
///    once;
///  - 141 when nobody reads the output any more;
///  - 127 when the program cannot be started.
///
/// What went wrong, and with which rank, is written to the errors' descriptor. Throws InvalidArgument for
/// options that mean nothing, ResourceLimit or SystemError if the job cannot be started for want of something
/// else. Threads: the main one, since the ranks are killed when the thread that started them ends.
Task<int> launch(Engine& engine, LaunchOptions options);

}  // namespace cohort
