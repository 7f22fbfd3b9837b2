// SPDX-License-Identifier: Apache-2.0
#include <cohort/notify/event.h>

#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace cohort::event_test {
namespace {

std::exception_ptr failure(const std::string& text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

/// What a waiter for that many marks gets: "" or the text of the failure.
std::string outcome(test::VirtualEngine& engine, Event& event, std::uint64_t mark) {
  auto wait = [&]() -> Task<> { co_await event.wait(mark); };
  try {
    engine.run(wait());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Event, a_mark_made_after_a_failed_one_was_reached_does_not_fail) {
  test::VirtualEngine engine;
  Event event;
  event.record();
  event.reach(failure("first"));
  event.record();
  event.reach(nullptr);
  EXPECT_EQ(outcome(engine, event, 1), "first") << "who comes late for it";
  EXPECT_EQ(outcome(engine, event, 2), "");
  event.record();
  event.reach(failure("third"));
  EXPECT_EQ(outcome(engine, event, 1), "first");
  EXPECT_EQ(outcome(engine, event, 2), "");
  EXPECT_EQ(outcome(engine, event, 3), "third");
}

TEST(Event, marks_made_before_the_failed_one_was_reached_fail_with_it) {
  test::VirtualEngine engine;
  Event event;
  event.record();
  event.record();
  event.record();
  event.reach(nullptr);
  event.reach(failure("second"));
  event.reach(nullptr);
  EXPECT_EQ(outcome(engine, event, 1), "");
  EXPECT_EQ(outcome(engine, event, 2), "second");
  EXPECT_EQ(outcome(engine, event, 3), "second");
  event.record();
  event.reach(nullptr);
  EXPECT_EQ(outcome(engine, event, 3), "second");
  EXPECT_EQ(outcome(engine, event, 4), "");
}

TEST(Event, a_failure_is_never_forgotten_by_who_is_far_behind) {
  test::VirtualEngine engine;
  Event event;
  constexpr int kFailures = 10;
  for (int i = 0; i < kFailures; ++i) {
    event.record();
    event.reach(failure("planted"));
  }
  event.record();
  event.reach(nullptr);
  for (std::uint64_t mark = 1; mark <= kFailures; ++mark)
    EXPECT_EQ(outcome(engine, event, mark), "planted") << "mark " << mark;
  EXPECT_EQ(outcome(engine, event, kFailures + 1), "");
}

}  // namespace
}  // namespace cohort::event_test
