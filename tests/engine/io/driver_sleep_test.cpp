// SPDX-License-Identifier: Apache-2.0
// How drivers wait, for themselves and for foreign loops.
#include <cohort/engine/when_all.h>
#include <cohort/tests/engine/io/drivers.h>
#include <cohort/tests/support/descriptors.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace cohort::driver_sleep_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::open_descriptors;

class SleepingDrivers : public Drivers {};

INSTANTIATE_TEST_SUITE_P(Every, SleepingDrivers, every_driver(), driver_name);

/// For foreign loops, which poll(2) it.
TEST_P(SleepingDrivers, descriptor_is_readable_from_the_first_completion_on_until_it_is_reset) {
  Engine engine(sleepy());
  Driver& driver = engine.driver();
  const auto is_readable = [&] {
    ::pollfd entry{.fd = driver.descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  EXPECT_FALSE(is_readable());
  driver.wake();
  driver.poll();
  EXPECT_TRUE(is_readable());
  driver.reset_descriptor();
  driver.poll();
  driver.poll();
  EXPECT_FALSE(is_readable());
}
TEST_P(SleepingDrivers, sleeps_until_the_moment_asked_for_and_not_less) {
  Engine engine(sleepy());
  for (const Duration delay : {Duration(10us), Duration(1ms), Duration(20ms)}) {
    auto body = [&]() -> Task<> {
      const TimePoint before = engine.now();
      co_await engine.sleep_for(delay);
      EXPECT_GE(engine.now() - before, delay);
    };
    engine.run(body());
  }
}

TEST_P(SleepingDrivers, wake_from_another_thread_ends_a_sleep_without_end) {
  constexpr int kRounds = 500;
  const std::unique_ptr<Driver> driver = make();
  std::atomic<int> sleeps{0};
  std::thread waker([&] {
    for (int i = 0; i < kRounds; ++i) {
      driver->wake();
      while (sleeps.load() <= i) std::this_thread::yield();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    driver->sleep(TimePoint(), kNever);
    ++sleeps;
  }
  waker.join();
}

TEST_P(SleepingDrivers, can_be_destroyed_right_after_a_wake) {
  for (int i = 0; i < 100; ++i) {
    const std::unique_ptr<Driver> driver = make();
    driver->poll();
    driver->wake();
  }
}

/// What is over at once in every turn keeps nothing else from being seen.
TEST_P(SleepingDrivers, is_asked_while_other_requests_end_at_once) {
  Engine engine(sleepy());
  auto [a, b] = test::socket_pair();
  auto [reader, writer] = test::make_pipe();
  bool is_seen = false;
  auto waits = [&, from = reader.number()]() -> Task<> {
    Task<int> poll = perform(engine, {.kind = IoKind::poll, .descriptor = from, .flags = POLLIN});
    (void)co_await poll;
    is_seen = true;
  };
  auto sends = [&, to = a.number(), from = b.number(), into = writer.number()]() -> Task<> {
    char letter = 'x';
    EXPECT_EQ(::write(into, &letter, 1), 1);
    for (int i = 0; i < 10'000 && !is_seen; ++i) {
      Task<int> send = perform(
          engine,
          {.kind = IoKind::send, .descriptor = to, .address = &letter, .bytes = 1, .flags = MSG_NOSIGNAL});
      (void)co_await send;
      Task<int> receive =
          perform(engine, {.kind = IoKind::recv, .descriptor = from, .address = &letter, .bytes = 1});
      (void)co_await receive;
    }
    EXPECT_TRUE(is_seen);
  };
  auto body = [&]() -> Task<> { co_await when_all(waits(), sends()); };
  engine.run(body());
}

TEST_P(SleepingDrivers, leaves_no_descriptor_behind) {
  const auto before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    Engine engine(sleepy());
    auto body = [&]() -> Task<> { co_await engine.sleep_for(0s); };
    engine.run(body());
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace cohort::driver_sleep_test
