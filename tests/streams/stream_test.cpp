// SPDX-License-Identifier: Apache-2.0
#include <cohort/streams/stream.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cohort::stream_test {
namespace {

using namespace std::chrono_literals;

/// Adds a letter to a log after a while.
Task<> note(Engine& engine, std::string& log, char letter, Duration after_time) {
  co_await engine.sleep_for(after_time);
  log += letter;
}

Task<> fail_after(Engine& engine, Duration after_time) {
  co_await engine.sleep_for(after_time);
  throw std::runtime_error("planted");
}

TEST(Stream, work_runs_in_the_order_in_which_it_was_enqueued) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  stream.enqueue(note(engine, log, 'a', 30ms));
  stream.enqueue(note(engine, log, 'b', 1ms));
  stream.enqueue([&] { return note(engine, log, 'c', 0ms); });
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  engine.run(wait());
  EXPECT_EQ(log, "abc");
  EXPECT_TRUE(stream.is_idle());
}

TEST(Stream, what_when_all_joins_is_one_item) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  stream.enqueue(when_all(note(engine, log, 'b', 20ms), note(engine, log, 'a', 10ms)));
  std::vector<Task<>> kept;
  kept.push_back(note(engine, log, 'd', 20ms));
  kept.push_back(note(engine, log, 'c', 10ms));
  stream.enqueue(when_all(kept));
  stream.enqueue(note(engine, log, 'e', 0ms));
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  engine.run(wait());
  EXPECT_EQ(log, "abcde");
  EXPECT_EQ(engine.elapsed(), 40ms);
}

TEST(Stream, a_failure_of_what_when_all_joins_is_the_streams) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  stream.enqueue(when_all(note(engine, log, 'x', 1h), fail_after(engine, 1ms)));
  stream.enqueue(when_all(note(engine, log, 'y', 0ms), note(engine, log, 'z', 0ms)));
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  EXPECT_THROW(engine.run(wait()), std::runtime_error);
  EXPECT_EQ(log, "");
  EXPECT_EQ(engine.elapsed(), 1ms);
}

TEST(Stream, nothing_runs_inside_enqueue) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  auto body = [&]() -> Task<> {
    log += 'w';
    co_return;
  };
  stream.enqueue(body());
  EXPECT_EQ(log, "");
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  engine.run(wait());
  EXPECT_EQ(log, "w");
}

TEST(Stream, streams_run_beside_each_other) {
  test::VirtualEngine engine;
  Stream slow(engine, "slow");
  Stream fast(engine, "fast");
  std::string log;
  slow.enqueue(note(engine, log, 's', 20ms));
  fast.enqueue(note(engine, log, 'f', 5ms));
  fast.enqueue(note(engine, log, 'g', 5ms));
  auto wait = [&]() -> Task<> {
    co_await slow.synchronize();
    co_await fast.synchronize();
  };
  engine.run(wait());
  EXPECT_EQ(log, "fgs");
}

TEST(Stream, an_event_holds_another_stream_until_the_work_before_it_is_done) {
  test::VirtualEngine engine;
  Stream compute(engine, "compute");
  Stream communication(engine, "communication");
  Event ready;
  std::string log;
  compute.enqueue(note(engine, log, 'c', 20ms));
  compute.record(ready);
  compute.enqueue(note(engine, log, 'd', 20ms));
  communication.wait(ready);
  communication.enqueue(note(engine, log, 'r', 1ms));
  auto wait = [&]() -> Task<> {
    co_await communication.synchronize();
    co_await compute.synchronize();
  };
  engine.run(wait());
  EXPECT_EQ(log, "crd");
}

TEST(Stream, a_wait_is_for_the_marks_recorded_before_it) {
  test::VirtualEngine engine;
  Stream first(engine, "first");
  Stream second(engine, "second");
  Event event;
  std::string log;
  second.wait(event);  // nothing recorded: passes
  second.enqueue(note(engine, log, 'p', 0ms));
  first.enqueue(note(engine, log, 'a', 10ms));
  first.record(event);
  second.wait(event);
  second.enqueue(note(engine, log, 'b', 0ms));
  first.enqueue(note(engine, log, 'c', 10ms));
  first.record(event);
  second.wait(event);
  second.enqueue(note(engine, log, 'd', 0ms));
  auto wait = [&]() -> Task<> {
    co_await second.synchronize();
    co_await first.synchronize();
  };
  engine.run(wait());
  EXPECT_EQ(log, "pabcd");
}

TEST(Stream, a_failure_drops_what_follows_and_synchronize_throws_it_once) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  auto kept_alive = std::make_shared<int>(1);
  stream.enqueue(fail_after(engine, 1ms));
  stream.enqueue([&log, kept_alive]() -> Task<> {
    log += 'x';
    co_return;
  });
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  EXPECT_THROW(engine.run(wait()), std::runtime_error);
  EXPECT_EQ(log, "");
  EXPECT_EQ(kept_alive.use_count(), 1) << "dropped work keeps its captures alive";
  stream.enqueue(note(engine, log, 'y', 0ms));
  engine.run(wait());
  EXPECT_EQ(log, "y");
}

TEST(Stream, whoever_waits_for_a_dropped_mark_gets_the_failure) {
  test::VirtualEngine engine;
  Stream broken(engine, "broken");
  Stream waiting(engine, "waiting");
  Event event;
  std::string log;
  broken.enqueue(fail_after(engine, 1ms));
  broken.record(event);
  waiting.wait(event);
  waiting.enqueue(note(engine, log, 'x', 0ms));
  auto wait_for = [&](Stream& stream) -> Task<> { co_await stream.synchronize(); };
  EXPECT_THROW(engine.run(wait_for(waiting)), std::runtime_error);
  EXPECT_THROW(engine.run(wait_for(broken)), std::runtime_error);
  EXPECT_EQ(log, "");
}

TEST(Stream, cancel_ends_what_runs_and_drops_the_rest) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  stream.enqueue(note(engine, log, 'a', 1h));
  stream.enqueue(note(engine, log, 'b', 0ms));
  auto cancel_soon = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    stream.cancel();
    co_await stream.synchronize();
  };
  try {
    engine.run(cancel_soon());
    FAIL() << "nothing was cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Cancelled);
  }
  EXPECT_EQ(log, "");
}

/// Ends well although it is cancelled: it cleans up.
Task<> catch_cancellation(Engine& engine) {
  try {
    co_await engine.sleep_for(1h);
  } catch (const Error&) {
  }
}

TEST(Stream, can_be_used_again_when_cancelled_work_ended_well) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  auto impatient = [&]() -> Task<> { co_await with_deadline(10ms, wait()); };
  stream.enqueue(catch_cancellation(engine));
  engine.run(impatient());
  stream.enqueue(note(engine, log, 'a', 1ms));
  engine.run(wait());
  EXPECT_EQ(log, "a");
}

TEST(Stream, what_is_behind_cancelled_work_is_dropped_though_that_ended_well) {
  test::VirtualEngine engine;
  Stream stream(engine);
  Event event;
  std::string log;
  stream.enqueue(catch_cancellation(engine));
  stream.enqueue([&]() -> Task<> {
    log += 'x';
    co_return;
  });
  stream.record(event);
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  auto cancel = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    stream.cancel();
    co_await event.wait();
  };
  EXPECT_THROW(engine.run(cancel()), Error);
  EXPECT_THROW(engine.run(wait()), Error);
  stream.enqueue(note(engine, log, 'a', 1ms));
  engine.run(wait());
  EXPECT_EQ(log, "a");
}

TEST(Stream, a_deadline_in_the_turn_in_which_the_work_ends_leaves_the_stream_usable) {
  Engine engine;  // of a real clock, since both are due when the engine comes back from other work
  Stream stream(engine);
  std::string log;
  const TimePoint due = after(engine.now(), 20ms);
  auto work = [&]() -> Task<> { co_await engine.sleep_until(due); };
  stream.enqueue(work());
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  auto impatient = [&]() -> Task<> {
    try {
      co_await with_deadline(20ms, wait());
    } catch (const Error&) {
    }
  };
  auto busy = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
  };
  auto both = [&]() -> Task<> { co_await when_all(impatient(), busy()); };
  engine.run(both());
  engine.run(wait());
  stream.enqueue(note(engine, log, 'a', 1ms));
  engine.run(wait());
  EXPECT_EQ(log, "a");
}

TEST(Stream, cancelling_an_idle_stream_concerns_nothing) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  stream.cancel();
  stream.enqueue(note(engine, log, 'a', 1ms));
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  engine.run(wait());
  EXPECT_EQ(log, "a");
}

TEST(Stream, an_event_works_again_after_its_failure_was_told) {
  test::VirtualEngine engine;
  Stream first(engine, "first");
  Stream second(engine, "second");
  Event event;
  std::string log;
  auto wait_for = [&](Stream& stream) -> Task<> { co_await stream.synchronize(); };
  first.enqueue(fail_after(engine, 1ms));
  first.record(event);
  second.wait(event);
  EXPECT_THROW(engine.run(wait_for(first)), std::runtime_error);
  EXPECT_THROW(engine.run(wait_for(second)), std::runtime_error);
  first.enqueue(note(engine, log, 'a', 1ms));
  first.record(event);
  second.wait(event);
  second.enqueue(note(engine, log, 'b', 1ms));
  engine.run(wait_for(second));
  engine.run(wait_for(first));
  EXPECT_EQ(log, "ab");
}

TEST(Stream, a_deadline_of_synchronize_ends_the_work_too) {
  test::VirtualEngine engine;
  Stream stream(engine);
  std::string log;
  stream.enqueue(note(engine, log, 'a', 1h));
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  auto impatient = [&]() -> Task<> { co_await with_deadline(10ms, wait()); };
  try {
    engine.run(impatient());
    FAIL() << "nothing was over";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::DeadlineExceeded) << error.what();
  }
  EXPECT_TRUE(stream.is_idle());
  EXPECT_EQ(log, "");
}

TEST(Stream, computing_and_coroutines_mix_in_order) {
  Engine engine;
  Stream stream(engine);
  std::string log;
  std::thread::id computed_on;
  stream.enqueue(note(engine, log, 'a', 1ms));
  stream.compute([&] {
    computed_on = std::this_thread::get_id();
    log += 'b';
  });
  stream.enqueue(note(engine, log, 'c', 0ms));
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  engine.run(wait());
  EXPECT_EQ(log, "abc");
  EXPECT_NE(computed_on, std::this_thread::get_id());
}

TEST(Stream, what_computing_throws_is_the_streams_failure) {
  Engine engine;
  Stream stream(engine);
  stream.compute([] { throw std::runtime_error("planted"); });
  auto wait = [&]() -> Task<> { co_await stream.synchronize(); };
  EXPECT_THROW(engine.run(wait()), std::runtime_error);
}

TEST(StreamDeathTest, a_stream_with_work_may_not_end) {
  const auto abandon = [] {
    test::VirtualEngine engine;
    std::string log;
    Stream stream(engine, "abandoned");
    stream.enqueue(note(engine, log, 'a', 1ms));
  };
  EXPECT_DEATH(abandon(), "stream 'abandoned' ended with work on it");
}

}  // namespace
}  // namespace cohort::stream_test
