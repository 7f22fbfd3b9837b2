// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/tellers.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

namespace cohort::torch_face {
namespace {

/// For callbacks of the program's, when it ends.
constexpr auto kLastWords = std::chrono::seconds(2);

thread_local std::size_t depth_of_thread = 0;

}  // namespace

Tellers*& Tellers::current() {
  static auto* tellers = new Tellers();
  return tellers;
}

void Tellers::begin_anew() {
  current() = new Tellers();
  depth_of_thread = 0;
}

std::size_t Tellers::depth() noexcept { return depth_of_thread; }

void Tellers::tell(std::size_t depth, std::function<void()> what) {
  depth = std::min(depth, kMostDepth - 1);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_silent_) return;
  Lane& lane = lanes_[depth];
  lane.waiting.push_back({std::move(what), Clock::now()});
  if (lane.threads == lane.busy && threads_ < kMostThreads) add_thread(depth);
  lane.wanted.notify_one();
}

/// With the lock.
void Tellers::add_thread(std::size_t depth) {
  try {
    std::thread([this, depth] { run(depth); }).detach();
  } catch (const std::system_error&) {
    return;  // those that there are go on, or whoever waits for the call
  }
  ++threads_;
  ++lanes_[depth].threads;
}

/// Until there is one that this thread may take: no other one is at it, or has been for too long.
void Tellers::wait_for_next(Lane& lane, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (lane.waiting.empty()) {
      lane.wanted.wait(lock);
      continue;
    }
    const Clock::time_point until = lane.waiting.front().since + kPatience;
    if (lane.busy == 0 || Clock::now() >= until) return;
    lane.wanted.wait_until(lock, until);
  }
}

void Tellers::run(std::size_t depth) {
  depth_of_thread = depth + 1;
  Lane& lane = lanes_[depth];
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wait_for_next(lane, lock);
    std::function<void()> what = std::move(lane.waiting.front().what);
    lane.waiting.pop_front();
    ++lane.busy;
    // While this one may wait for what comes next.
    if (!lane.waiting.empty() && lane.threads == lane.busy && threads_ < kMostThreads) add_thread(depth);
    lock.unlock();
    what();
    what = nullptr;  // the tensors that it may be the last to hold are the interpreter's, too
    lock.lock();
    --lane.busy;
    told_.notify_all();
    if (!lane.waiting.empty()) lane.wanted.notify_one();
  }
}

bool Tellers::is_quiet() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.waiting.empty() && lane.busy == 0; });
}

void Tellers::fall_silent() {
  // End without the lock: their tensors may ask for the interpreter's.
  std::array<std::deque<Untold>, kMostDepth> untold;
  std::unique_lock<std::mutex> lock(mutex_);
  told_.wait_for(lock, kLastWords, [this] { return is_quiet(); });
  is_silent_ = true;
  for (std::size_t depth = 0; depth < kMostDepth; ++depth) lanes_[depth].waiting.swap(untold[depth]);
  lock.unlock();
}

}  // namespace cohort::torch_face
