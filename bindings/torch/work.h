// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/face.h>
#include <cohort/bindings/torch/flight_recorder.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cohort::torch_face {

/// A call of a process group that was started. Keeps its tensors, and itself, until it is over.
class CohortWork final : public c10d::Work {
 public:
  using Over = std::function<void(const Outcome&)>;

  struct Facts {
    int rank;
    c10d::OpType type;
    const char* title;       ///< for profilers; null: not shown
    double timeout_s;        ///< when the session ends the call
    std::uint64_t sequence;  ///< of the group's calls
    bool is_timed;
    std::shared_ptr<RecordedCall> recorded{};  ///< null: nobody records
  };

  /// `finish` is called once the call has succeeded, before anybody hears of it.
  CohortWork(const Facts& facts, std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs,
             std::function<void()> finish);

  /// `launch(over)` starts it and gives what is pending; `over` is told how it ended.
  template <class Launch>
  void start(Launch&& launch) {
    auto self = c10::intrusive_ptr<CohortWork>::reclaim_copy(this);
    try {
      pending_ = launch([self](const Outcome& outcome) { self->end(outcome); });
    } catch (...) {
      if (recorded_) recorded_->end(false);
      throw;
    }
    if (recorded_) recorded_->start();
  }

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  int sourceRank() const override { return static_cast<int>(from_); }
  std::vector<at::Tensor> result() override { return outputs_; }
  void abort() override {}
  /// In milliseconds, until the results were there.
  float getDuration() const override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  /// One that is asked for amid a backward pass has that end once the call is over, but for messages.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void end(const Outcome& outcome);
  void wait_until_over(double seconds);
  void tell_future();
  void record_end(bool is_well);
  void dump_failure();
  void wait_at_end_of_backward();

  const std::vector<at::Tensor> inputs_;
  const std::vector<at::Tensor> outputs_;
  /// Of either: the program may give a tensor other memory meanwhile, by `tensor.data = ...`.
  const std::vector<c10::Storage> memory_;
  const double timeout_s_;
  const std::uint64_t sequence_;
  const std::size_t depth_;  ///< of callbacks around the call
  const bool is_inference_;  ///< in the caller's thread: another one may not write tensors of an inference
  const std::shared_ptr<RecordedCall> recorded_;
  std::function<void()> finish_;
  std::shared_ptr<Pending> pending_;
  std::uint32_t from_ = 0;
  std::optional<std::chrono::steady_clock::time_point> began_;  ///< where calls are timed
  std::chrono::steady_clock::duration took_{0};
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool is_future_told_ = false;  ///< or somebody is about to
};

/// What a call that has ended so leaves to do: `finish` where it has succeeded. What is to be thrown for it,
/// or null.
std::exception_ptr settle(const Outcome& outcome, const std::function<void()>& finish, bool is_inference);

/// Makes a call that is waited for where it is made, and what `finish` does after it. Throws what it says,
/// and what a signal's handler raised meanwhile.
void wait_for_call(const std::function<Outcome(bindings::Interrupt*)>& call,
                   const std::function<void()>& finish);

/// Once: a child of fork has one thread, so that nobody there tells futures yet, or waits but that one.
void expect_forks();

/// Threads that come back from waits are the interpreter's, which is about to end: waits, a second at most,
/// until they have come back. Those that come later stay behind.
void keep_threads_that_wait() noexcept;

/// Waits, a few seconds at most, until every future that was to be told is told. Later ones are told by
/// whoever waits for their work.
void tell_all_futures() noexcept;

}  // namespace cohort::torch_face
