// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/thread_team.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace cohort {
namespace {

/// Where threads wait until all are ready, or one says that it never will be.
class Start {
 public:
  explicit Start(Rank parts) : missing_(parts) {}

  /// For a thread that is ready: whether it may begin.
  [[nodiscard]] bool arrive() {
    std::unique_lock lock(mutex_);
    --missing_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return missing_ == 0 || reason_; });
    return !reason_;
  }
  void call_off(ErrorKind kind, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_.emplace(kind, why);
    changed_.notify_all();
  }
  /// Once no thread is left.
  void throw_if_called_off() const {
    if (reason_) throw Error(*reason_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Rank missing_;
  std::optional<Error> reason_;
};

/// Null, and the others know why, if there is none to be had.
std::unique_ptr<Engine> try_make(const std::function<std::unique_ptr<Engine>()>& make_engine, Rank part,
                                 Rank parts, Start& start) {
  const auto call_off = [&](ErrorKind kind, std::string_view why) {
    start.call_off(kind,
                   fmt::format("thread {} of {} has no engine: {}; nothing has begun: mend that, or run "
                               "fewer ranks, or several on a thread",
                               part + 1, parts, why));
  };
  try {
    return make_engine();
  } catch (const Error& error) {
    call_off(error.kind(), error.message());
  } catch (const std::exception& error) {
    call_off(ErrorKind::ResourceLimit, error.what());
  }
  return nullptr;
}

}  // namespace

void run_on_threads(Rank parts, const std::function<std::unique_ptr<Engine>()>& make_engine,
                    const std::function<void(Rank part, Engine& engine)>& body) {
  Start start(parts);
  const auto live = [&](Rank part) {
    const std::unique_ptr<Engine> engine = try_make(make_engine, part, parts, start);
    if (engine && start.arrive()) body(part, *engine);
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(parts);
    for (Rank part = 0; part < parts; ++part) threads.emplace_back(live, part);
  } catch (const std::exception& error) {
    start.call_off(ErrorKind::ResourceLimit,
                   fmt::format("thread {} of {} cannot be started: {}; raise the limit of processes "
                               "(ulimit -u), or run fewer ranks",
                               threads.size() + 1, parts, error.what()));
  }
  for (std::thread& thread : threads) thread.join();
  start.throw_if_called_off();
}

}  // namespace cohort
