// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/engine/world/random.h>
#include <cohort/tools/soak/buffers.h>
#include <cohort/tools/soak/processes/process_job.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cohort::soak {

/// Bugs that tests plant in a rank, to see them found.
enum class PlantedInRank : std::uint8_t { nothing, touches_old_buffer, gives_wrong_data };

/// What one rank of a job does: groups, and in each calls and messages that it may give up before they are
/// done.
///
/// What is asked: a call that completes has the right result; a call that fails does so because somebody gave
/// it up, and not because a living rank is taken for dead; once a call is over nobody touches its buffers;
/// and the communicator of all ranks, in which nobody gives anything up, never fails.
class ProcessRank {
 public:
  ProcessRank(const ProcessJob& job, Communicator& world, PlantedInRank planted);

  /// Until the job's time is over. Prints what is wrong, and rank 0 a sum.
  Task<> run();
  [[nodiscard]] bool is_good() const noexcept { return complaints_ == 0; }

 private:
  /// The bytes of a message at one of its ends.
  struct Parcel {
    MessagePlan plan;
    std::vector<std::byte> bytes;
    std::vector<std::byte> frozen{};  ///< when the message was over; empty: it is not
  };

  Task<> play(std::uint64_t round);
  /// Beside the round.
  Task<> call_in_world(std::size_t calls);
  Task<> use(Communicator& group, world::Random& common);
  Task<> call(Communicator& group, const CallPlan& plan, std::size_t index);
  Task<> exchange(Communicator& group, std::vector<MessagePlan> plans);
  Task<> take_part(Communicator& group, Parcel& parcel);
  /// The task, which is given up after a time that is drawn for this rank alone.
  Task<> try_for_a_while(Task<> task);
  Task<> dawdle();
  Task<bool> settle();
  Task<> print_sum();
  /// Whether somebody gave up, which is all that may happen here.
  void judge(const Error& error);
  static void give_up(Communicator& group);
  void complain(const std::string& text);
  void find_touched();

  const ProcessJob job_;
  Communicator& world_;
  const PlantedInRank planted_;
  world::Random own_;
  const TimePoint end_;
  std::uint64_t round_ = 0;
  std::vector<std::unique_ptr<Buffers>> buffers_;  ///< of this round's calls, which are over
  std::vector<std::unique_ptr<Parcel>> parcels_;
  std::int64_t done_ = 0;
  std::int64_t failed_ = 0;
  std::int64_t complaints_ = 0;
};

/// What a rank's process does: joins from the environment, takes its part. The exit status.
int run_process_rank(const ProcessJob& job, PlantedInRank planted);

}  // namespace cohort::soak
