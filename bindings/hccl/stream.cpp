// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/stream.h>

#include <cohort/bindings/hccl/error.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace cohort::bindings::hccl {

namespace {

/// The stream whose thread this is.
constinit thread_local const Stream* working = nullptr;

}  // namespace

TimePoint deadline_of(const char* function, std::int32_t timeout_ms) {
  if (timeout_ms < -1 || timeout_ms == 0)
    refuse(fmt::format("{}: {} is no time; give milliseconds, or -1 for as long as it takes", function,
                       timeout_ms));
  if (timeout_ms == -1) return kNever;
  return after(std::chrono::steady_clock::now(), std::chrono::milliseconds(timeout_ms));
}

std::shared_ptr<Stream> Stream::make(std::int32_t device) {
  // In a child the end would wait for threads that wait in the parent.
  return {new Stream(device), [](Stream* last) {
            if (!last->is_forked()) delete last;
          }};
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

const Stream* Stream::of_this_thread() noexcept { return working; }

void Stream::refuse_own_threads(const char* function) {
  if (working != nullptr)
    refuse(
        fmt::format("{}: a function that a stream calls (aclrtLaunchHostFunc) would wait for what is behind "
                    "it; call this in another thread",
                    function));
}

/// Before any lock, which a thread of the parent's may have held.
void Stream::refuse_child() const {
  if (is_forked()) [[unlikely]]
    refuse_handle(
        "this process was forked from the one that made the stream, which has its thread; create one here "
        "(aclrtCreateStream)");
}

void Stream::add(Work work) {
  refuse_child();
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { this->work(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::ResourceLimit,
                  fmt::format("no thread can be had for a stream ({}); see ulimit -u", error.what()));
    }
  }
  queue_.push_back(std::move(work));
  ++added_;
  changed_.notify_all();
}

bool Stream::synchronize(TimePoint until) {
  refuse_child();
  if (is_own_thread())
    refuse(
        "a function that a stream calls (aclrtLaunchHostFunc) waits for that stream, and so for itself; wait "
        "in another thread");
  std::unique_lock lock(mutex_);
  const auto own = waiters_.insert(waiters_.end(), Waiter{.target = added_});
  if (done_ == added_) *own = {.target = added_, .is_over = true, .failure = failure_};
  const auto is_over = [&own] { return own->is_over; };
  if (until == kNever)
    changed_.wait(lock, is_over);
  else
    (void)changed_.wait_until(lock, until, is_over);
  const Waiter told = std::move(*own);
  waiters_.erase(own);
  if (!told.is_over) return false;
  if (!told.failure) return true;
  // What others have added since is skipped as well, and they are still to hear of it.
  if (told.target == added_ && failure_ == told.failure) failure_ = nullptr;
  std::rethrow_exception(told.failure);
}

bool Stream::is_idle() const {
  refuse_child();
  const std::lock_guard lock(mutex_);
  return done_ == added_;
}

void Stream::work() noexcept {
  working = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    {
      Work next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      perform(next);
    }  // with what it owns, before it counts as over
    lock.lock();
    ++done_;
    for (Waiter& waiter : waiters_) {
      if (waiter.target != done_) continue;
      waiter.is_over = true;
      waiter.failure = failure_;
    }
    changed_.notify_all();
  }
}

void Stream::perform(Work& work) noexcept {
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (failure) {
    if (work.skip) work.skip(failure);
    return;
  }
  try {
    work.run();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

}  // namespace cohort::bindings::hccl
