// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/world.h>
#include <cohort/tools/soak/buffers.h>
#include <cohort/tools/soak/job.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cohort::soak {

using world::Process;

/// What one call came to on one process.
struct CallOutcome {
  bool is_asked = false;
  bool is_over = false;
  std::optional<Error> error;
  std::string wrong_result;
  Duration took{};
  TimePoint ended{};
};

/// What one message came to at one of its ends.
struct MessageOutcome : CallOutcome {
  Rank from = 0;  ///< at the end that receives: whose it was
};

/// What one group came to on one process.
struct GroupOutcome {
  bool is_asked = false;
  bool is_made = false;
  std::optional<Error> make_error;
  Duration make_took{};
  std::vector<CallOutcome> calls;
  std::optional<Error> later_error;  ///< of a call after a failed one
  std::optional<Error> end_error;    ///< that only closing has told
};

/// What one communicator came to on one process.
struct CommunicatorOutcome {
  std::optional<Error> join_error;
  Duration join_took{};
  bool has_joined = false;
  std::vector<CallOutcome> calls;
  std::vector<MessageOutcome> messages;  ///< as planned; those of others stay unasked
  GroupOutcome group;
  std::optional<Error> later_error;  ///< of a call after a failed one
  std::optional<Error> end_error;    ///< that only closing has told
  std::string touched;               ///< found while its memory was still there
};

/// How it ends.
Task<std::optional<Error>> error_of(Task<> task);

/// One job in its world: what all ranks did, and what came of it.
///
/// Held by the threads of its ranks: one that hangs for good keeps it.
class JobRun : public std::enable_shared_from_this<JobRun>, Immovable {
 public:
  explicit JobRun(Job job);

  /// False: threads hang for good, so the process should end soon.
  bool run();

  [[nodiscard]] const Job& job() const noexcept { return job_; }
  [[nodiscard]] world::World& world() noexcept { return world_; }
  [[nodiscard]] const CommunicatorOutcome& outcome(Process process, std::size_t communicator) const noexcept {
    return outcomes_[process][communicator];
  }
  /// Whether the process was alive, and through with its part before the end.
  [[nodiscard]] bool is_through(Process process) const noexcept { return is_through_[process]; }
  /// What was done to buffers of this process after their calls were over: empty if nothing.
  [[nodiscard]] std::string find_touched(Process process) const;
  /// Ranks of the group that the process is in, by rank there; empty: in none.
  [[nodiscard]] std::vector<Rank> group_of(Process process, std::size_t communicator) const;

 private:
  /// The bytes of a message at one of its ends.
  struct Parcel {
    std::vector<std::byte> bytes;
    std::vector<std::byte> frozen;  ///< when the message was over
  };

  void run_process(Process process);
  Task<> take_part(Engine& engine, Process process);
  Task<> use(Engine& engine, Process process, std::size_t communicator);
  /// The calls, and what runs beside them.
  Task<> take_all_parts(Communicator& comm, Process process, std::size_t communicator);
  Task<> call_all(Communicator& comm, Process process, std::size_t communicator);
  Task<> call_once(Communicator& comm, Process process, std::size_t communicator, std::size_t index);
  Task<> await_call(Communicator& comm, Process process, std::size_t communicator, std::size_t index);
  // What runs beside the calls (job_run_beside.cpp):
  void prepare_beside(Process process, std::size_t communicator);
  Task<> use_group(Communicator& comm, Process process, std::size_t communicator);
  Task<> make_and_use_group(Communicator& comm, Process process, std::size_t communicator);
  Task<> call_in_group(Communicator& group, GroupOutcome& outcome, Buffers& own, std::size_t index);
  Task<> exchange_messages(Communicator& comm, Process process, std::size_t communicator);
  Task<> take_part_in_message(Communicator& comm, Process process, std::size_t communicator,
                              std::size_t index);
  /// Whether the process goes on with these calls: its deed may be to leave.
  [[nodiscard]] bool goes_on(Communicator& comm, Process process, std::size_t communicator, std::size_t first,
                             std::size_t end);
  /// Does something else, if the process is to be late for one of these calls.
  Task<> be_late(Engine& engine, Process process, std::size_t communicator, std::size_t first,
                 std::size_t end);
  /// Bugs that are planted.
  void touch_what_is_over(Process process, std::size_t communicator, std::size_t index);
  [[nodiscard]] bool has_deed(Process process, std::size_t communicator, Deed::Kind kind) const noexcept {
    return job_.deed && job_.deed->rank == process && job_.deed->communicator == communicator &&
           job_.deed->kind == kind;
  }
  Task<> call_after_failure(Communicator& comm, CommunicatorOutcome& outcome);
  [[nodiscard]] std::string find_touched_beside(Process process, std::size_t communicator) const;
  void settle_buffers(CommunicatorOutcome& outcome, Process process, std::size_t communicator);
  [[nodiscard]] CommunicatorOptions options_for(Process process, const CommunicatorPlan& plan) const;
  [[nodiscard]] Buffers& buffers(Process process, std::size_t communicator, std::size_t call) const noexcept {
    return *buffers_[process][communicator][call];
  }

  const Job job_;
  world::World world_;
  std::vector<std::vector<CommunicatorOutcome>> outcomes_;                   ///< by process
  std::vector<std::vector<std::vector<std::unique_ptr<Buffers>>>> buffers_;  ///< by process, communicator
  std::vector<std::vector<std::vector<std::unique_ptr<Buffers>>>> group_buffers_;  ///< the same, of its group
  std::vector<std::vector<std::vector<Parcel>>> parcels_;                          ///< the same, by message
  std::vector<char> is_through_;
};

}  // namespace cohort::soak
