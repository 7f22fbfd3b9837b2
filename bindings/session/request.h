// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/shared_loop.h>
#include <cohort/collectives/p2p/message_request.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace cohort::bindings {

class SharedCommunicator;
class Completions;

/// Something that was started on a session and is not waited for: a future. Threads: any.
class Request final : public Work, public std::enable_shared_from_this<Request> {
 public:
  /// What it does, on the engine: a coroutine that may use what the function owns. It owns what it names.
  using Body = std::function<Task<>(Request&)>;

  Request(SharedLoop& loop, Body body, TaskScope* within = nullptr)
      : Work(within), loop_(loop), body_(std::move(body)) {}

  /// Waits; drives the engine if nobody else does. Throws what it threw.
  void wait(Interrupt* interrupt = nullptr) {
    loop_.wait(shared_from_this(), kNever, interrupt);
    take();
  }
  /// The same until that moment; false if it is not over by then.
  [[nodiscard]] bool wait_until(TimePoint until, Interrupt* interrupt = nullptr) {
    if (!is_over_by(until, interrupt)) return false;
    take();
    return true;
  }
  /// The same, but throws nothing of the work's.
  [[nodiscard]] bool is_over_by(TimePoint until, Interrupt* interrupt = nullptr) {
    return loop_.wait(shared_from_this(), until, interrupt);
  }
  /// Whether it is over; gives it a few turns if nobody drives, else stays with it for so long.
  [[nodiscard]] bool test(Duration patience = Duration::zero()) {
    if (is_over() || loop_.nudge() || patience == Duration::zero()) return is_over();
    return is_over_by(std::chrono::steady_clock::now() + patience);
  }
  /// Asks it to end early, with Cancelled: which gives its communicator up, unless it had not begun.
  void cancel() { loop_.cancel(shared_from_this()); }
  /// The same of a recv() of SharedCommunicator::prepare() as long as nobody has sent to it: otherwise it
  /// goes on to its end, and nothing is given up.
  void withdraw() {
    is_withdrawn_ = true;
    cancel();
  }

  /// Called once it is over, by whoever drives then: short, and it may not wait; at once if it is over
  /// already. Of several, in their order.
  void when_over(std::function<void(Request&)> callback);

  PostedReceive posted{};  ///< the engine's: of a recv()

  // What it made, once it is over:
  Envelope envelope{};                         ///< of a message
  std::shared_ptr<SharedCommunicator> made{};  ///< of making a group; null: none for this rank

 private:
  Task<> body() override { return body_(*this); }
  void told() noexcept override;
  [[nodiscard]] bool may_be_cancelled() noexcept override { return !is_withdrawn_ || posted.withdraw(); }

  SharedLoop& loop_;
  Body body_;
  std::atomic<bool> is_withdrawn_{false};
  std::mutex mutex_;
  bool is_told_ = false;
  std::vector<std::function<void(Request&)>> when_over_;
};

/// Tells a foreign event loop by a descriptor that requests are over: epoll, libuv, asyncio.
///
/// Threads: any.
class Completions : Immovable {
 public:
  Completions();
  /// The request is told of here when it is over.
  void expect(Request& request);
  /// Readable while there is something to take.
  [[nodiscard]] int descriptor() const noexcept { return state_->event.number(); }
  /// Those that are over since the last time, in their order.
  [[nodiscard]] std::vector<std::shared_ptr<Request>> take();

 private:
  /// Kept by what is expected, too.
  struct State {
    explicit State(Descriptor of) : event(std::move(of)) {}
    void add(std::shared_ptr<Request> request);

    const Descriptor event;
    std::mutex mutex;
    std::vector<std::shared_ptr<Request>> over;
  };

  const std::shared_ptr<State> state_;
};

}  // namespace cohort::bindings
