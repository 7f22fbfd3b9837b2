// SPDX-License-Identifier: Apache-2.0
// What another thread than the engine's may not do, and what it is told.
#include <cohort/engine/engine.h>
#include <cohort/notify/notify.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace cohort::off_thread_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::VirtualEngine;

Task<> wait(Engine& engine) { co_await engine.sleep_for(1s); }

TEST(OffThreadDeathTest, running_an_engine_that_runs_says_that_another_thread_does) {
  const auto run_on_two_threads = [] {
    VirtualEngine engine;
    auto body = [&]() -> Task<> {
      std::thread([&] { engine.run(wait(engine)); }).join();
      co_return;
    };
    engine.run(body());
  };
  EXPECT_DEATH(run_on_two_threads(),
               "run\\(\\) was called of an engine that runs already, on another thread.*engine.post\\(");
}

TEST(OffThreadDeathTest, posting_a_notify_says_what_to_use) {
  const auto post_there = [] {
    VirtualEngine engine;
    Notify notify;
    auto wait_for_it = [&]() -> Task<> { co_await notify.wait(); };
    auto body = [&]() -> Task<> {
      TaskScope tasks;
      tasks.spawn(wait_for_it());
      std::thread([&] { notify.post(); }).join();
      co_await tasks.join();
    };
    engine.run(body());
  };
  EXPECT_DEATH(post_there(), "no engine lives on this thread; .*engine.post\\(");
}

}  // namespace
}  // namespace cohort::off_thread_test
