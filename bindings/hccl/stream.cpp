// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/stream.h>

#include <cohort/bindings/hccl/error.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace cohort::bindings::hccl {

TimePoint deadline_of(const char* function, std::int32_t timeout_ms) {
  if (timeout_ms < -1 || timeout_ms == 0)
    refuse(fmt::format("{}: {} is no time; give milliseconds, or -1 for as long as it takes", function,
                       timeout_ms));
  if (timeout_ms == -1) return kNever;
  return after(std::chrono::steady_clock::now(), std::chrono::milliseconds(timeout_ms));
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Stream::add(Work work) {
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
  std::unique_lock lock(mutex_);
  const std::uint64_t target = added_;
  const auto is_over = [&] { return done_ >= target; };
  if (until == kNever)
    changed_.wait(lock, is_over);
  else if (!changed_.wait_until(lock, until, is_over))
    return false;
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  return true;
}

bool Stream::is_idle() const {
  const std::lock_guard lock(mutex_);
  return done_ == added_;
}

void Stream::work() noexcept {
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
