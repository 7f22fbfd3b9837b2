// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace c10d {
struct ProcessGroupStatus;
}

/// Calls of process groups in a flight recorder: torch's class, format, variables and writer of dumps, and a
/// buffer of this module's own, since torch gives nobody its.
namespace cohort::torch_face {

class RecordedCall;

/// The calls of a process group, or of another order of calls that its ranks have. Threads: any.
class GroupRecord : public std::enable_shared_from_this<GroupRecord> {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Of the group, and what the program says it is for.
  using Names = std::tuple<std::string, std::string>;

  struct Call {
    c10d::OpType type;
    const char* title;      ///< as profilers show it
    std::string peers{};    ///< of a message: "0->1", or "1<-0" where rank 1 receives
    std::uint64_t ordinal;  ///< of the group's collectives: this one's, or that of the last one before it
    const Tensors& inputs;
    const Tensors& outputs;
    double timeout_s;
  };

  /// Null, and nothing is recorded, unless TORCH_FR_BUFFER_SIZE says how many calls of a process are kept.
  static std::shared_ptr<GroupRecord> make_if_wanted(int rank, std::vector<std::uint64_t> world_ranks);
  /// From now on: the interpreter, whose lock stacks are read with, is about to end.
  static void fall_silent() noexcept;

  GroupRecord(int rank, std::vector<std::uint64_t> world_ranks);

  /// Makes the entry of a call that is about to start; null once silent. Takes the interpreter's lock.
  std::shared_ptr<RecordedCall> begin(const Names& names, const Call& call);
  /// Of another order of calls of the same ranks: the next one, which all of them ask for.
  std::shared_ptr<GroupRecord> next_part() const {
    return std::make_shared<GroupRecord>(rank_, world_ranks_);
  }
  std::string name_next_part(const std::string& group) {
    return group + "/buckets" + std::to_string(parts_++);
  }

  /// Writes what is recorded in this process to the file that torch's writer has for this rank: once in a
  /// group's life. Takes the interpreter's lock.
  void dump_failure() noexcept;

 private:
  friend class RecordedCall;
  void record_ranks(const Names& names);

  const int rank_;
  const std::vector<std::uint64_t> world_ranks_;
  const std::size_t id_;
  const std::shared_ptr<c10d::ProcessGroupStatus> status_;  ///< under the recorder's lock
  std::atomic<std::uint64_t> messages_{0};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<unsigned> parts_{0};
  std::atomic<bool> is_dumped_{false};
  std::mutex mutex_;
  Names known_;  ///< by which the recorder has the ranks
};

/// An entry: scheduled when it is made, started once the session has the call, completed where it succeeds.
/// One that is retired and not completed has failed. Threads: any.
class RecordedCall {
 public:
  RecordedCall(std::shared_ptr<GroupRecord> group, std::size_t id, std::size_t epoch, std::uint64_t ordinal,
               bool is_message)
      : group_(std::move(group)), id_(id), epoch_(epoch), ordinal_(ordinal), is_message_(is_message) {}

  void start() noexcept;
  /// `from`: who sent the message, where it was received from anybody; below zero: something else.
  void end(bool is_well, int from = -1) noexcept;
  void dump_failure() noexcept { group_->dump_failure(); }

 private:
  template <class Function>
  void change(const Function& function) noexcept;

  const std::shared_ptr<GroupRecord> group_;
  const std::size_t id_;
  const std::size_t epoch_;
  const std::uint64_t ordinal_;
  const bool is_message_;
};

/// What is recorded, as torch's functions of these names give it of what torch's own backends record: pickled
/// or in JSON. The first takes the interpreter's lock.
std::string dump_fr_trace(bool includes_collectives, bool includes_stacks, bool only_active);
std::string dump_fr_trace_json(bool includes_collectives, bool only_active);

}  // namespace cohort::torch_face
