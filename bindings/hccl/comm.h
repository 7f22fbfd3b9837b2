// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/hccl/stream.h>
#include <cohort/bindings/session/session.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cohort::bindings::hccl {

/// A communicator whose calls streams make.
///
/// Calls begin in the order of add(), whatever their streams, as all ranks have to agree on it, and may go on
/// at the same time. One that is not begun gives the communicator up, so that nobody waits for this rank.
///
/// Threads: any. Lifetime: work in streams shares it. In a child of fork() it refuses everything.
class Comm : Immovable, public std::enable_shared_from_this<Comm> {
 public:
  Comm(std::shared_ptr<Session> session, std::shared_ptr<SharedCommunicator> comm)
      : session_(std::move(session)), comm_(std::move(comm)) {}
  ~Comm() { comm_.reset(); }  // before the session, whose end waits for what this leaves to it

  /// What one function of the interface asks for: begun together, over when all are.
  struct Call {
    std::string name;                       ///< of the function
    std::function<void()> before = {};      ///< puts input together
    std::vector<AnyCall> calls;             ///< empty: it has only what is before and after
    std::function<void()> after = {};       ///< takes output apart
    std::shared_ptr<const void> kept = {};  ///< what the calls refer to
  };

  [[nodiscard]] SharedCommunicator& comm() noexcept { return *comm_; }
  [[nodiscard]] const std::shared_ptr<Session>& session() const noexcept { return session_; }
  void add(Stream& stream, Call call);
  /// The group of these ranks, in which this one is.
  [[nodiscard]] std::shared_ptr<Comm> group(std::vector<Rank> ranks, const std::string& name);
  /// Memory that ranks of this host map, which owns this.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Waits for all calls, and says goodbye. Throws what that throws. Not in the thread of a stream, which may
  /// have some of the calls to make.
  void close();

 private:
  void refuse_child() const;
  void perform(std::uint64_t turn, const Call& call);
  /// Those that were started are put into `started`. Throws where not all were.
  void begin(const Call& call, std::vector<std::shared_ptr<Request>>& started);
  /// Whether its peers know of a failure.
  [[nodiscard]] bool has_failed() noexcept;
  /// For peers, of what this rank does not begin, or not end.
  void give_up(const Call& call, const std::exception_ptr& failure, const char* reason) noexcept;
  void await_turn(std::uint64_t turn);
  void end_turn() noexcept;

  const std::shared_ptr<Session> session_;
  std::shared_ptr<SharedCommunicator> comm_;

  std::mutex adding_;  ///< a turn is given and its work queued in one step
  std::uint64_t given_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t turn_ = 0;  ///< whose it is to begin
  std::uint64_t under_way_ = 0;
};

}  // namespace cohort::bindings::hccl
