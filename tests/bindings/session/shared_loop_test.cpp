// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/session/shared_loop.h>

#include <cohort/bindings/session/request.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace cohort::bindings::shared_loop_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_from;
using cohort::test::kind_of;

TimePoint in(Duration time) { return std::chrono::steady_clock::now() + time; }

std::shared_ptr<Request> sleeping(SharedLoop& loop, Duration time, TaskScope* within = nullptr) {
  auto body = [&loop, time](Request&) -> Task<> { co_await loop.engine().sleep_for(time); };
  return std::make_shared<Request>(loop, body, within);
}

/// Wants it once it is asked, and answers only when that moment has come.
class WantsAt final : public Interrupt {
 public:
  explicit WantsAt(TimePoint moment) : moment_(moment) {}
  bool is_wanted() noexcept override {
    std::this_thread::sleep_until(moment_);
    return true;
  }

 private:
  TimePoint moment_;
};

TEST(SharedLoop, an_interrupt_that_comes_as_a_wait_ends_is_not_dropped) {
  SharedLoop loop;
  const auto request = sleeping(loop, 1h);
  loop.start(request);
  // Another thread drives, and looks at nobody's orders until the wait is over.
  std::atomic<bool> is_held{false};
  std::atomic<bool> is_let_go{false};
  const auto holds = sleeping(loop, 0s);
  holds->when_over([&](Request&) {
    is_held = true;
    is_held.notify_all();
    is_let_go.wait(false);
  });
  std::thread driver([&] {
    loop.start(holds);
    holds->wait();
  });
  is_held.wait(false);
  const TimePoint end = in(200ms);
  WantsAt interrupt(end + 1ms);
  EXPECT_FALSE(request->wait_until(end, &interrupt));
  is_let_go = true;
  is_let_go.notify_all();
  driver.join();
  const auto error = error_from([&] { EXPECT_TRUE(request->wait_until(in(30s))) << "it goes on"; });
  EXPECT_EQ(kind_of(error), "Cancelled");
}

TEST(SharedLoop, what_is_cancelled_before_it_is_started_ends_at_once) {
  SharedLoop loop;
  const auto request = sleeping(loop, 1h);
  request->cancel();
  EXPECT_FALSE(request->is_over());
  loop.start(request);
  const auto error = error_from([&] { EXPECT_TRUE(request->wait_until(in(30s))); });
  EXPECT_EQ(kind_of(error), "Cancelled");
}

TEST(SharedLoop, its_end_waits_for_what_callbacks_start_meanwhile) {
  for (const bool begins_in_loop : {false, true}) {
    TaskScope calls(nullptr, TaskScope::OnFailure::keep_others);
    std::array<std::shared_ptr<Request>, 4> requests;
    {
      SharedLoop loop;
      for (std::size_t i = 0; i < requests.size(); ++i)
        requests[i] = sleeping(loop, 20ms, i == 0 && begins_in_loop ? nullptr : &calls);
      for (std::size_t i = 0; i + 1 < requests.size(); ++i)
        requests[i]->when_over([&loop, next = requests[i + 1]](Request&) { loop.start(next); });
      loop.start(requests[0]);
    }
    for (const auto& request : requests) EXPECT_TRUE(request->is_over());
  }
}

TEST(SharedLoop, the_first_of_several_to_be_over_ends_a_wait_for_any) {
  SharedLoop loop;
  for (const bool is_driven : {false, true}) {
    const auto driver = sleeping(loop, is_driven ? 50ms : 0ms);
    loop.start(driver);
    std::thread other([&] { driver->wait(); });
    const std::array<std::shared_ptr<Work>, 2> works = {sleeping(loop, 1h), sleeping(loop, 20ms)};
    for (const auto& work : works) loop.start(work);
    EXPECT_FALSE(loop.wait_any(works, in(1ms)));
    EXPECT_TRUE(loop.wait_any(works, in(30s)));
    EXPECT_FALSE(works[0]->is_over());
    EXPECT_TRUE(works[1]->is_over());
    loop.cancel(works[0]);
    other.join();
  }
}

}  // namespace
}  // namespace cohort::bindings::shared_loop_test
