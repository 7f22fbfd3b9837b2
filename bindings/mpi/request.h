// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/prepared.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace cohort::mpi {

/// An MPI_Request: a call that was started, or one that can be started again and again.
///
/// Threads: any, one at a time for each.
class Request {
 public:
  using Make = std::function<Prepared()>;

  /// `again`: makes the call anew, of a persistent one, which is inactive until it starts.
  Request(const char* function, Make again) : function_(function), again_(std::move(again)) {}

  [[nodiscard]] const char* function() const noexcept { return function_; }
  [[nodiscard]] MPI_Comm comm() const noexcept { return handler_; }
  void report_to(MPI_Comm comm) noexcept { handler_ = comm; }
  [[nodiscard]] bool is_persistent() const noexcept { return again_ != nullptr; }
  [[nodiscard]] bool is_active() const noexcept { return is_active_; }

  void begin(Prepared prepared);
  /// Throws Failure for one that goes on, or is not persistent.
  void begin_again();
  [[nodiscard]] bool is_over() const;
  /// Gives it a turn, and asks.
  [[nodiscard]] bool test();
  void wait();
  /// Of what is over: what remains to be done, and its status. It is inactive then. Throws what the call
  /// threw.
  void take(MPI_Status* status);
  /// The status of what is over, which stays as it is.
  void tell(MPI_Status* status) const;
  /// A receive that nobody has sent to ends; anything else goes on to its end.
  void cancel();
  /// Nobody waits for it any more.
  void let_go();
  /// Adds what it waits for, to wait for the first of several; false: it is over.
  [[nodiscard]] bool append_to(std::vector<std::shared_ptr<bindings::Work>>& works) const;

 private:
  using Parts = std::array<std::shared_ptr<bindings::Request>, 2>;
  [[nodiscard]] bool was_cancelled() const;

  const char* const function_;
  const Make again_;
  MPI_Comm handler_ = abi::kCommWorld;
  bool is_active_ = false;
  bool is_receive_ = false;
  bool is_cancelling_ = false;
  bool is_with_nobody_ = false;
  Parts parts_;  ///< the last one is what statuses tell of
  std::shared_ptr<Prepared::Kept> kept_;
};

[[nodiscard]] Handles<Request>& made_requests();

}  // namespace cohort::mpi
