// SPDX-License-Identifier: Apache-2.0
// cohort inside a plain epoll loop that has work of its own: one thread, no other loop.
//   build/release/bin/cohort run -n 2 -- build/release/bin/epoll_loop
// The loop's own work is a timer of 5 ms, which stands for sockets; the collectives go on beside it.
#include <cohort/cohort.h>
#include <cohort/engine/stepped_run.h>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <system_error>
#include <vector>

namespace {

using namespace std::chrono_literals;

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

/// epoll with descriptors of the program's.
class Loop {
 public:
  void watch(int descriptor) {
    ::epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    checked(::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event), "epoll_ctl");
  }
  /// Those that are ready, after at most so long.
  std::vector<int> wait(int timeout_ms) {
    std::array<::epoll_event, 8> events{};
    const int count = ::epoll_wait(epoll_, events.data(), events.size(), timeout_ms);
    std::vector<int> ready;
    for (int i = 0; i < count; ++i) ready.push_back(events[static_cast<std::size_t>(i)].data.fd);
    return ready;
  }
  ~Loop() { ::close(epoll_); }

 private:
  int epoll_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
};

class Ticker {
 public:
  explicit Ticker(std::chrono::nanoseconds every) {
    ::itimerspec time{};
    time.it_interval.tv_nsec = time.it_value.tv_nsec = every.count();
    checked(::timerfd_settime(descriptor, 0, &time, nullptr), "timerfd_settime");
  }
  ~Ticker() { ::close(descriptor); }
  std::uint64_t take() const {
    std::uint64_t ticks = 0;
    return ::read(descriptor, &ticks, sizeof ticks) == sizeof ticks ? ticks : 0;
  }

  const int descriptor =
      checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
};

/// What this process does as a rank.
cohort::Task<> train(cohort::Engine& engine, int& steps) {
  cohort::CommunicatorOptions options = cohort::CommunicatorOptions::from_environment();
  cohort::Communicator comm = co_await cohort::Communicator::join(engine, options);
  std::vector<float> grad(64 * 1024);
  for (steps = 0; steps < 50; ++steps) {
    std::fill(grad.begin(), grad.end(), 1.0F);
    co_await comm.all_reduce(grad, cohort::ReduceOp::avg);
    co_await engine.sleep_for(1ms);  // where the next batch comes from
  }
  co_await comm.close();
}

void run() {
  cohort::Engine engine;
  int steps = 0;
  std::uint64_t ticks = 0;
  Loop loop;
  const Ticker ticker(5ms);
  loop.watch(ticker.descriptor);

  cohort::SteppedRun rank(engine, train(engine, steps));
  loop.watch(rank.descriptor());
  while (!rank.is_over()) {
    for (const int ready : loop.wait(rank.timeout_ms()))
      if (ready == ticker.descriptor) ticks += ticker.take();
    rank.step();
  }
  rank.take();
  fmt::print("{} steps of training, {} of the loop's own ticks meanwhile\n", steps, ticks);
}

}  // namespace

int main() try {
  run();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
