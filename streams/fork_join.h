// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/join_group.h>
#include <cohort/streams/stream_watcher.h>

#include <memory>
#include <utility>

namespace cohort {

namespace detail {

/// The sub streams of one fork, from their start to their join. Used again for later forks.
class Fork final : private JoinGroup {
 public:
  explicit Fork(StreamWatcher* watcher) noexcept : watcher_(watcher) {}

  [[nodiscard]] bool empty() const noexcept { return streams_.empty(); }
  void add(Task<> work) noexcept { streams_.push_back(work.release().promise()); }
  /// Starts them in their order. False: all are over already.
  [[nodiscard]] bool start_all(std::coroutine_handle<> parent, CancelScope* around);
  /// All are over: throws what the first to fail threw.
  void join();
  /// Destroys their frames.
  void clear() noexcept;

 private:
  friend class ForkPool;

  void task_finished(PromiseBase& promise) noexcept override;

  StreamWatcher* const watcher_;
  StreamWatcher::Stream parent_ = 0;
  IntrusiveList<PromiseBase> streams_;
  std::unique_ptr<Fork> next_;  ///< in the pool
};

/// Forks to lease: as many as were ever open at once. They are too large to stand in the frame of every
/// schedule that forks, once for each of its forks.
class ForkPool : Immovable {
 public:
  explicit ForkPool(StreamWatcher* watcher) noexcept : watcher_(watcher) {}

  [[nodiscard]] std::unique_ptr<Fork> lease();
  void give_back(std::unique_ptr<Fork> fork) noexcept;

 private:
  StreamWatcher* const watcher_;
  std::unique_ptr<Fork> idle_;
};

}  // namespace detail

/// Sub streams that one stream forks and joins: `co_await` it, once.
///
/// A sub stream is a coroutine with an end that is waited for. All start in the order in which they were
/// added, each runs until it first waits, and the parent goes on when all are over. The first failure cancels
/// the others and is thrown. The fork has no frame of its own, and frames are recycled.
class [[nodiscard]] ForkJoin : Immovable {
 public:
  /// Whatever `fill(*this)` adds.
  template <class Fill>
  ForkJoin(detail::ForkPool& pool, const Fill& fill) : ForkJoin(pool) {
    fill(*this);
  }
  ~ForkJoin();

  /// One more sub stream.
  void add(Task<> work) noexcept { fork_->add(std::move(work)); }

  bool await_ready() const noexcept { return fork_->empty(); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> parent) {
    return fork_->start_all(parent, detail::scope_of(parent));
  }
  void await_resume() { fork_->join(); }

 private:
  explicit ForkJoin(detail::ForkPool& pool);

  detail::ForkPool& pool_;
  std::unique_ptr<detail::Fork> fork_;
};

}  // namespace cohort
