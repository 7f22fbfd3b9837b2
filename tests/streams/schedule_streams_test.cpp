// SPDX-License-Identifier: Apache-2.0
#include <cohort/streams/schedule_streams.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/error.h>

#include <gmock/gmock.h>

#include <vector>

namespace cohort::schedule_streams_test {
namespace {

using ::testing::ElementsAre;

constexpr int kItems[] = {1, 2, 3};

Task<> hop() { co_await Engine::current().sleep_for(Duration::zero()); }

TEST(ScheduleStreams, start_in_order_and_join_before_the_parent_goes_on) {
  Engine engine;
  ScheduleStreams streams;
  std::vector<int> log;
  auto body = [&](int item) -> Task<> {
    log.push_back(item);
    co_await hop();
    log.push_back(10 * item);
  };
  auto main = [&]() -> Task<> {
    co_await streams.fork_join(kItems, body);
    log.push_back(0);
  };
  engine.run(main());
  EXPECT_THAT(log, ElementsAre(1, 2, 3, 10, 20, 30, 0));
}

TEST(ScheduleStreams, run_different_bodies_at_once_and_notify_each_other) {
  Engine engine;
  ScheduleStreams streams;
  std::vector<int> log;
  auto main = [&]() -> Task<> {
    LocalNotify arrived = streams.notify(1);
    auto pass = [&]() -> Task<> {
      for (const int item : kItems) {
        co_await arrived.wait();
        log.push_back(-item);
      }
    };
    auto take = [&]() -> Task<> {
      for (const int item : kItems) {
        log.push_back(item);
        arrived.post();
        co_await hop();
      }
    };
    co_await streams.fork_join(pass, take);
  };
  engine.run(main());
  EXPECT_THAT(log, ElementsAre(1, -1, 2, -2, 3, -3));
}

TEST(ScheduleStreams, fork_within_sub_streams_and_again) {
  Engine engine;
  ScheduleStreams streams;
  int done = 0;
  auto inner = [&](int) -> Task<> {
    co_await hop();
    ++done;
  };
  auto outer = [&](int) -> Task<> {
    co_await streams.fork_join(kItems, inner);
    co_await streams.fork_join(kItems, inner);
  };
  auto main = [&]() -> Task<> { co_await streams.fork_join(kItems, outer); };
  engine.run(main());
  EXPECT_EQ(done, 18);
}

TEST(ScheduleStreams, of_no_items_are_joined_at_once) {
  Engine engine;
  ScheduleStreams streams;
  const std::vector<int> nothing;
  auto body = [&](int) -> Task<> { co_await hop(); };
  auto main = [&]() -> Task<> { co_await streams.fork_join(nothing, body); };
  engine.run(main());
}

TEST(ScheduleStreams, that_fail_cancel_the_others_and_can_be_forked_again) {
  Engine engine;
  ScheduleStreams streams;
  bool is_cancelled = false;
  auto fail = [&]() -> Task<> {
    co_await hop();
    throw Error(ErrorKind::Internal, "on purpose");
  };
  auto wait = [&]() -> Task<> {
    try {
      co_await Engine::current().sleep_until(kNever);
    } catch (const Error& error) {
      is_cancelled = error.kind() == ErrorKind::Cancelled;
      throw;
    }
  };
  auto failing = [&]() -> Task<> { co_await streams.fork_join(wait, fail); };
  try {
    engine.run(failing());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "on purpose");
  }
  EXPECT_TRUE(is_cancelled);
  auto fine = [&]() -> Task<> { co_await streams.fork_join(hop, hop); };
  engine.run(fine());
}

TEST(ScheduleStreams, are_given_up_when_a_body_cannot_begin) {
  Engine engine;
  ScheduleStreams streams;
  int begun = 0;
  auto body = [&](int item) -> Task<> {
    if (item == 3) throw Error(ErrorKind::InvalidArgument, "no such peer");
    return hop();
  };
  auto main = [&]() -> Task<> {
    co_await streams.fork_join(kItems, body);
    ++begun;
  };
  EXPECT_THROW(engine.run(main()), Error);
  EXPECT_EQ(begun, 0);
}

TEST(ScheduleStreams, take_one_frame_each_and_none_for_the_fork) {
  Engine engine;
  ScheduleStreams streams;
  auto body = [&](int) -> Task<> { co_return; };
  auto main = [&]() -> Task<> {
    const std::uint64_t before = FramePool::statistics().requests;
    co_await streams.fork_join(kItems, body);
    EXPECT_EQ(FramePool::statistics().requests, before + std::size(kItems));
  };
  engine.run(main());
}

}  // namespace
}  // namespace cohort::schedule_streams_test
