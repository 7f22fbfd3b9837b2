// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/mutex.h>

#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <string>

namespace cohort::mutex_test {
namespace {

using namespace std::chrono_literals;

Task<> hold(Engine& engine, Mutex& mutex, std::string& trace, char name, Duration duration) {
  const Mutex::Guard guard = co_await mutex.lock();
  trace += name;
  co_await engine.sleep_for(duration);
  trace += name;
}

TEST(Mutex, one_at_a_time_and_first_come_first_served) {
  test::VirtualEngine engine;
  Mutex mutex;
  std::string trace;
  auto body = [&]() -> Task<> {
    TaskScope scope;
    scope.spawn(hold(engine, mutex, trace, 'a', 3ms));
    scope.spawn(hold(engine, mutex, trace, 'b', 1ms));
    scope.spawn(hold(engine, mutex, trace, 'c', 2ms));
    co_await scope.join();
  };
  engine.run(body());
  EXPECT_EQ(trace, "aabbcc");
  EXPECT_FALSE(mutex.is_locked());
  EXPECT_EQ(engine.elapsed(), 6ms);
}

TEST(Mutex, who_comes_while_it_is_handed_over_does_not_overtake) {
  test::VirtualEngine engine;
  Mutex mutex;
  std::string trace;
  auto late = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    co_await hold(engine, mutex, trace, 'c', 0ms);
  };
  auto body = [&]() -> Task<> {
    TaskScope scope;
    scope.spawn(late());
    scope.spawn(hold(engine, mutex, trace, 'a', 1ms));
    scope.spawn(hold(engine, mutex, trace, 'b', 1ms));
    co_await scope.join();
  };
  engine.run(body());
  EXPECT_EQ(trace, "aabbcc");
}

TEST(Mutex, a_cancelled_wait_leaves_the_queue) {
  test::VirtualEngine engine;
  Mutex mutex;
  std::string trace;
  std::optional<Error> error;
  auto impatient = [&]() -> Task<> {
    error = co_await test::error_of(with_deadline(1ms, hold(engine, mutex, trace, 'x', 1ms)));
  };
  auto body = [&]() -> Task<> {
    TaskScope scope;
    scope.spawn(hold(engine, mutex, trace, 'a', 5ms));
    scope.spawn(impatient());
    scope.spawn(hold(engine, mutex, trace, 'b', 1ms));
    co_await scope.join();
  };
  engine.run(body());
  EXPECT_EQ(test::kind_of(error), "DeadlineExceeded");
  EXPECT_EQ(trace, "aabb");
  EXPECT_FALSE(mutex.is_locked());
}

}  // namespace
}  // namespace cohort::mutex_test
