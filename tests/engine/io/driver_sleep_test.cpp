// SPDX-License-Identifier: Apache-2.0
// How drivers wait, for themselves and for foreign loops.
#include <cohort/tests/engine/io/drivers.h>
#include <cohort/tests/support/descriptors.h>

#include <poll.h>

#include <atomic>
#include <thread>

namespace cohort {
namespace {

using namespace std::chrono_literals;
using cohort::testing::open_descriptors;

INSTANTIATE_TEST_SUITE_P(Every, Drivers, every_driver(), driver_name);

/// For foreign loops, which poll(2) it.
TEST_P(Drivers, descriptor_is_readable_from_the_first_completion_on_until_it_is_reset) {
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
TEST_P(Drivers, sleeps_until_the_moment_asked_for_and_not_less) {
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

TEST_P(Drivers, wake_from_another_thread_ends_a_sleep_without_end) {
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

TEST_P(Drivers, can_be_destroyed_right_after_a_wake) {
  for (int i = 0; i < 100; ++i) {
    const std::unique_ptr<Driver> driver = make();
    driver->poll();
    driver->wake();
  }
}

TEST_P(Drivers, leaves_no_descriptor_behind) {
  const auto before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    Engine engine(sleepy());
    auto body = [&]() -> Task<> { co_await engine.sleep_for(0s); };
    engine.run(body());
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace cohort
