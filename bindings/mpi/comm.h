// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/arguments.h>
#include <cohort/bindings/mpi/attributes.h>
#include <cohort/bindings/mpi/guarded.h>
#include <cohort/bindings/mpi/handles.h>
#include <cohort/bindings/session/session.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace cohort::mpi {

/// An MPI_Info: keys and values, of which cohort itself looks at few.
struct Info {
  Guarded<std::map<std::string, std::string>> values;
};

/// An MPI_Comm. Threads: any.
struct Comm {
  std::shared_ptr<bindings::SharedCommunicator> shared;
  Guarded<std::string> name;
  Attributes attributes;
  Info info;
  std::atomic<MPI_Errhandler> errhandler{abi::kErrorsAreFatal};
  std::mutex mutex;  ///< of what follows
  /// How often MPI_Comm_create_group was called for the same ranks and tag, which its members count alike.
  std::map<std::string, unsigned> groups_made;

  [[nodiscard]] int rank() const noexcept { return static_cast<int>(shared->rank()); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(shared->size()); }
};

/// Throws Failure for what is none, and before MPI_Init.
[[nodiscard]] std::shared_ptr<Comm> comm_of(MPI_Comm handle);
/// Those that have handles, which mean nothing from now on.
[[nodiscard]] std::vector<std::shared_ptr<Comm>> remove_made_comms();
/// Gives a communicator that was made a handle; MPI_COMM_NULL for null. It gets the parent's error handler.
[[nodiscard]] MPI_Comm add_comm(const Comm& parent, std::shared_ptr<bindings::SharedCommunicator> made);

/// An MPI_Group: ranks of MPI_COMM_WORLD, in their order.
using Group = std::vector<Rank>;
[[nodiscard]] std::shared_ptr<const Group> group_of(MPI_Group handle);

/// What belongs to the process, from MPI_Init to MPI_Finalize.
class Process {
 public:
  static Process& get();

  /// Joins the job of the environment, or is a world of its own where there is none.
  void start();
  /// Says goodbye on all communicators.
  void end();
  [[nodiscard]] bool is_started() const noexcept { return is_started_; }
  [[nodiscard]] bool is_ended() const noexcept { return is_ended_; }
  /// Ends the process, and tells the other ranks why.
  [[noreturn]] void abort(const std::string& reason, int status) noexcept;

  /// MPI_COMM_WORLD and MPI_COMM_SELF. Throws Failure before MPI_Init and after MPI_Finalize.
  [[nodiscard]] std::shared_ptr<Comm> world() const;
  [[nodiscard]] std::shared_ptr<Comm> self() const;
  [[nodiscard]] bindings::SharedLoop& loop() noexcept { return session_->loop(); }

  /// Buffered messages that are under way, whose senders have gone on.
  void keep_buffered(std::shared_ptr<bindings::Request> request);
  void wait_for_buffered();
  /// Calls whose requests the program has freed: MPI_Finalize waits for them.
  void keep_freed(std::shared_ptr<bindings::Request> request);

  // Of MPI_Buffer_attach:
  void* buffer = nullptr;
  Number buffer_bytes = -1;  ///< below zero: there is none

 private:
  void join();
  [[nodiscard]] std::vector<std::shared_ptr<bindings::Request>> take(
      std::vector<std::shared_ptr<bindings::Request>>& from);

  std::unique_ptr<bindings::Session> session_;
  std::shared_ptr<Comm> world_;
  std::shared_ptr<Comm> self_;
  std::atomic<bool> is_started_{false};
  std::atomic<bool> is_ended_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<bindings::Request>> buffered_;
  std::vector<std::shared_ptr<bindings::Request>> freed_;
};

/// Tells of what a call threw as the communicator's error handler asks for: the code that it returns. World's
/// where the handle is none.
int report(const char* function, MPI_Comm comm, const std::exception_ptr& failure) noexcept;
/// The same of a code that is known.
int report_code(MPI_Comm comm, int code) noexcept;

}  // namespace cohort::mpi
