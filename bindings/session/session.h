// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/call.h>
#include <cohort/bindings/session/request.h>
#include <cohort/bindings/session/shared_loop.h>
#include <cohort/bindings/session/typed_calls.h>
#include <cohort/engine/mutex.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cohort::bindings {

class Session;

/// A communicator for threads: blocking calls, and started ones that answer by a Request.
///
/// Calls of one thread keep their order. Calls of several are ordered as they come, which has to be the same
/// on all ranks: give each thread a group of its own. Threads: any. Made by a Session, which outlives it; the
/// end of the last owner closes it without waiting.
class SharedCommunicator : Immovable,
                           public TypedCalls<SharedCommunicator>,
                           public std::enable_shared_from_this<SharedCommunicator> {
 public:
  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] Rank size() const noexcept { return size_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& transport() const noexcept { return transport_; }
  /// What its ranks are called where their processes joined.
  [[nodiscard]] const std::vector<Rank>& world_ranks() const noexcept { return world_ranks_; }
  /// The lowest of its ranks that is on this host.
  [[nodiscard]] Rank first_of_host() const noexcept { return first_of_host_; }
  [[nodiscard]] bool is_closed() const noexcept { return is_closed_.load(std::memory_order_relaxed); }

  // Of calls whose types the compiler knows TypedCalls has one each: comm->all_reduce(data, op).

  /// Makes the call and waits for it, in this thread where nobody else drives the engine. The rank that a
  /// message is from. Throws what the call throws; Cancelled after an interrupt.
  Rank call(const AnyCall& call, const CallSettings& settings = {}, Interrupt* interrupt = nullptr);
  /// The same of a message, and all that is known of it then.
  Envelope call_message(const MessageRequest& request, const CallSettings& settings = {});
  /// As Communicator::look_now, after a turn of the engine: for whoever asks again and again.
  [[nodiscard]] std::optional<Envelope> look_now(const MessageRequest& probe);
  /// Makes the call, which belongs to the request until it is over. Its memory and counts outlive that, or
  /// are `kept` by the request.
  [[nodiscard]] std::shared_ptr<Request> prepare(AnyCall call, CallSettings settings = {},
                                                 std::shared_ptr<const void> kept = {});
  /// Starts what was prepared. `patience`: as SharedLoop::start.
  void start(const std::shared_ptr<Request>& request, Duration patience = Duration::zero()) {
    loop_.start(request, patience);
  }

  /// Whatever else is done with it on the engine: a task that the function returns there, which uses what the
  /// function owns.
  [[nodiscard]] std::shared_ptr<Request> prepare_task(std::function<Task<>()> function);
  /// For such tasks, on the engine alone.
  [[nodiscard]] Communicator& communicator() noexcept { return comm_; }

  // The same of what is no call: started by start(), over when Request::made is there, or this is closed.
  [[nodiscard]] std::shared_ptr<Request> prepare_split(int color, int key = 0);
  [[nodiscard]] std::shared_ptr<Request> prepare_group(std::vector<Rank> ranks, std::string name);
  [[nodiscard]] std::shared_ptr<Request> prepare_close();

  /// As Communicator::split; null for a negative colour.
  [[nodiscard]] std::shared_ptr<SharedCommunicator> split(int color, int key = 0,
                                                          Interrupt* interrupt = nullptr);
  /// As Communicator::group.
  [[nodiscard]] std::shared_ptr<SharedCommunicator> group(std::vector<Rank> ranks, std::string name,
                                                          Interrupt* interrupt = nullptr);

  /// Memory that peers on this host map. It may outlive this communicator's calls, and not the session.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Why it has failed, if it has.
  [[nodiscard]] std::optional<Error> failure();
  /// Which algorithm runs such a call here, and why: as Communicator::explain, in words.
  [[nodiscard]] std::string explain(Operator op, DataType type, std::size_t bytes);
  /// As Communicator::takes_blocks_apart.
  [[nodiscard]] bool takes_blocks_apart(Operator op, DataType type, std::size_t bytes);

  /// Says goodbye and waits until that is told. Calls that are under way, of other threads too, end with
  /// Cancelled before. Idempotent; calls afterwards throw InvalidArgument.
  void close(Interrupt* interrupt = nullptr);
  void abort(const std::string& reason);

 private:
  friend class Session;
  SharedCommunicator(SharedLoop& loop, Communicator comm);
  /// On the engine.
  static std::shared_ptr<SharedCommunicator> adopt(SharedLoop& loop, Communicator comm);
  [[nodiscard]] std::shared_ptr<SharedCommunicator> make(const std::shared_ptr<Request>& request,
                                                         Interrupt* interrupt);
  [[nodiscard]] Task<> close_on_engine();
  Envelope call_to_end(const AnyCall& call, const CallSettings& settings, Interrupt* interrupt);
  void refuse_closed() const;

  SharedLoop& loop_;
  Communicator comm_;
  TaskScope calls_{nullptr, TaskScope::OnFailure::keep_others};  ///< under way
  Mutex closing_;                                                ///< of several that close, one at a time
  const Rank rank_;
  const Rank size_;
  const std::string name_;
  const std::string transport_;
  std::vector<Rank> world_ranks_;
  const Rank first_of_host_;
  std::atomic<bool> is_closed_{false};
};

/// An engine and its communicators, for programs with a world of their own: threads, an interpreter, another
/// event loop.
///
///   Session session;
///   const auto comm = session.join(CommunicatorOptions::from_environment());
///   comm->all_reduce(data, ReduceOp::sum);
///   const double loss = comm->all_reduce(mine, ReduceOp::avg);
///
/// Threads: any. Lifetime: outlives its communicators, their requests and memory; its end waits for what was
/// started.
class Session : Immovable {
 public:
  /// Throws what making an engine throws, ResourceLimit.
  Session();
  ~Session();

  /// As Communicator::join. Interrupt: Cancelled.
  [[nodiscard]] std::shared_ptr<SharedCommunicator> join(CommunicatorOptions options,
                                                         Interrupt* interrupt = nullptr);
  /// The same as a request, which loop().start() starts.
  [[nodiscard]] std::shared_ptr<Request> prepare_join(CommunicatorOptions options);
  /// Whether this process is a child of the one that made it; then nothing of it can be used.
  [[nodiscard]] bool is_forked() const noexcept { return loop_->is_forked(); }
  [[nodiscard]] SharedLoop& loop() noexcept { return *loop_; }

 private:
  std::unique_ptr<SharedLoop> loop_;
};

}  // namespace cohort::bindings
