// SPDX-License-Identifier: Apache-2.0
// The engine with other threads: post() and offload(), on the real driver.
#include <cohort/engine/engine.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace cohort::engine_threads_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;
using cohort::test::kind_of;

/// Sleeps whenever it is idle, so that every message has to wake it.
EngineOptions sleepy(unsigned threads = 2) { return {.compute_threads = threads, .spin = Duration::zero()}; }

/// What a test waits for without polling: ended by a post()ed function.
class Signal final : public Operation {
 public:
  class Awaiter {
   public:
    explicit Awaiter(Signal& signal) noexcept : signal_(signal) {}
    bool await_ready() const noexcept { return signal_.is_set_; }
    template <class P>
    bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
      return signal_.suspend(waiter, detail::scope_of(waiter));
    }
    void await_resume() const { signal_.throw_if_cancelled(); }

   private:
    Signal& signal_;
  };

  void set() {
    is_set_ = true;
    if (is_pending()) complete();
  }
  [[nodiscard]] Awaiter wait() noexcept { return Awaiter(*this); }

 private:
  void request_cancel() noexcept override { complete_cancelled(); }
  bool is_set_ = false;
};

TEST(EngineThreads, an_engine_is_oversubscribed_while_its_own_computing_takes_the_cores) {
  Engine engine(sleepy());
  engine.expect_engines_per_core(1);
  std::latch has_begun(1);
  std::latch may_end(1);
  auto computing = [&] {
    has_begun.count_down();
    may_end.wait();
  };
  auto compute = [&]() -> Task<> { co_await engine.offload(computing); };
  auto body = [&]() -> Task<> {
    EXPECT_FALSE(engine.is_oversubscribed());
    TaskScope tasks;
    tasks.spawn(compute());
    has_begun.wait();
    EXPECT_TRUE(engine.is_oversubscribed());
    may_end.count_down();
    co_await tasks.join();
    EXPECT_FALSE(engine.is_oversubscribed());
  };
  engine.run(body());
}

TEST(EngineThreads, posted_functions_run_on_the_loop_in_order_of_each_sender) {
  constexpr int kSenders = 4;
  constexpr int kMessages = 5'000;
  Engine engine(sleepy());
  const std::thread::id loop = std::this_thread::get_id();
  std::vector<int> last(kSenders, -1);
  int left = kSenders * kMessages;
  Signal done;
  auto body = [&]() -> Task<> { co_await done.wait(); };
  std::vector<std::thread> senders;
  for (std::size_t sender = 0; sender < kSenders; ++sender)
    senders.emplace_back([&, sender] {
      for (int i = 0; i < kMessages; ++i)
        engine.post([&, sender, i] {
          EXPECT_EQ(std::this_thread::get_id(), loop);
          EXPECT_EQ(last[sender] + 1, i);
          last[sender] = i;
          if (--left == 0) done.set();
        });
    });
  engine.run(body());
  for (std::thread& sender : senders) sender.join();
}

TEST(EngineThreads, every_message_wakes_a_loop_that_sleeps) {
  constexpr int kRounds = 2'000;
  Engine engine(sleepy());
  std::atomic<int> answered{0};
  Signal done;
  auto body = [&]() -> Task<> { co_await done.wait(); };
  std::thread sender([&] {
    for (int i = 0; i < kRounds; ++i) {
      engine.post([&] { ++answered; });
      while (answered.load() != i + 1) std::this_thread::yield();
    }
    engine.post([&] { done.set(); });
  });
  engine.run(body());
  sender.join();
  EXPECT_EQ(answered, kRounds);
}

TEST(EngineThreads, function_that_posts_itself_again_does_not_stop_the_loop) {
  Engine engine(sleepy());
  int posted = 0;
  std::function<void()> again = [&] {
    if (++posted < 1'000'000) engine.post(again);
  };
  auto body = [&]() -> Task<> {
    engine.post(again);
    co_await engine.sleep_for(0s);
    co_await engine.sleep_for(0s);
  };
  engine.run(body());
  EXPECT_LT(posted, 1'000);
}

TEST(EngineThreads, function_that_was_never_run_is_destroyed_with_the_engine) {
  const auto watched = std::make_shared<int>(1);
  {
    Engine engine(sleepy());
    engine.post([watched] { ADD_FAILURE() << *watched; });
    EXPECT_EQ(watched.use_count(), 2);
  }
  EXPECT_EQ(watched.use_count(), 1);
}

TEST(Offload, gives_what_the_function_returns_from_another_thread) {
  Engine engine(sleepy());
  const std::thread::id loop = std::this_thread::get_id();
  auto body = [&]() -> Task<> {
    auto number = [] { return 42; };
    auto movable = [] { return std::make_unique<int>(7); };
    auto thread = [] { return std::this_thread::get_id(); };
    bool ran = false;
    auto nothing = [&ran] { ran = true; };
    const int forty_two = co_await engine.offload(number);
    EXPECT_EQ(forty_two, 42);
    const std::unique_ptr<int> seven = co_await engine.offload(movable);
    EXPECT_EQ(*seven, 7);
    const std::thread::id elsewhere = co_await engine.offload(thread);
    EXPECT_NE(elsewhere, loop);
    co_await engine.offload(nothing);
    EXPECT_TRUE(ran);
    EXPECT_EQ(std::this_thread::get_id(), loop);
  };
  engine.run(body());
}

TEST(Offload, throws_what_the_function_throws) {
  Engine engine(sleepy());
  auto body = [&]() -> Task<std::string> {
    auto fails = []() -> int { throw std::runtime_error("divided by zero"); };
    std::string what;
    try {
      co_await engine.offload(fails);
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    co_return what;
  };
  EXPECT_EQ(engine.run(body()), "divided by zero");
}

TEST(Offload, runs_as_many_functions_at_once_as_there_are_threads) {
  constexpr int kThreads = 3;
  Engine engine(sleepy(kThreads));
  std::latch all_here(kThreads);  // passed only if all run at the same time
  auto meets = [&]() -> Task<> {
    auto function = [&] { all_here.arrive_and_wait(); };
    co_await engine.offload(function);
  };
  auto body = [&]() -> Task<> { co_await when_all(meets(), meets(), meets()); };
  engine.run(body());
}

TEST(Offload, many_functions_from_one_loop_each_give_their_own_result) {
  Engine engine(sleepy(4));
  long sum = 0;
  auto doubles = [&](int i) -> Task<> {
    auto function = [i] { return 2 * i; };
    const int result = co_await engine.offload(function);
    sum += result;
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    for (int i = 0; i < 10'000; ++i) tasks.spawn(doubles(i));
    co_await tasks.join();
  };
  engine.run(body());
  EXPECT_EQ(sum, 9'999L * 10'000L);
}

TEST(Offload, loop_goes_on_while_the_function_computes) {
  Engine engine(sleepy());
  std::latch loop_was_here(1);
  auto computes = [&]() -> Task<> {
    auto function = [&] { loop_was_here.wait(); };
    co_await engine.offload(function);
  };
  auto loop = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    loop_was_here.count_down();
  };
  auto body = [&]() -> Task<> { co_await when_all(computes(), loop()); };
  engine.run(body());
}

TEST(Offload, cancelled_waits_for_the_function_and_then_throws_the_cause) {
  Engine engine(sleepy());
  std::latch go(1);
  std::atomic<bool> finished{false};
  CancelScope scope;
  auto computes = [&]() -> Task<int> {
    auto function = [&] {
      go.wait();
      finished = true;
      return 1;
    };
    co_return co_await engine.offload(function);
  };
  auto cancels = [&]() -> Task<> {
    scope.cancel(Error(ErrorKind::Revoked, "changed my mind"));
    co_await engine.sleep_for(1ms);
    EXPECT_FALSE(finished);
    go.count_down();
  };
  auto both = [&]() -> Task<> {
    const auto error = co_await error_of(with_scope(scope, computes()));
    EXPECT_EQ(kind_of(error), "Revoked");
    EXPECT_TRUE(finished);
  };
  auto body = [&]() -> Task<> { co_await when_all(both(), cancels()); };
  engine.run(body());
}

TEST(Offload, in_a_cancelled_scope_does_not_run_the_function) {
  Engine engine(sleepy());
  CancelScope scope;
  scope.cancel();
  bool ran = false;
  auto computes = [&]() -> Task<> {
    auto function = [&ran] { ran = true; };
    co_await engine.offload(function);
  };
  auto body = [&]() -> Task<> {
    const auto error = co_await error_of(with_scope(scope, computes()));
    EXPECT_EQ(kind_of(error), "Cancelled");
  };
  engine.run(body());
  EXPECT_FALSE(ran);
}

TEST(Offload, of_one_function_after_the_other_needs_one_thread) {
  Engine engine(sleepy(8));
  std::vector<std::thread::id> threads;
  auto body = [&]() -> Task<> {
    auto function = [] { return std::this_thread::get_id(); };
    for (int i = 0; i < 20; ++i) {
      const std::thread::id id = co_await engine.offload(function);
      if (threads.empty() || threads.back() != id) threads.push_back(id);
      co_await engine.sleep_for(1ms);  // until the thread waits again
    }
  };
  engine.run(body());
  EXPECT_LT(threads.size(), 8U);
}

/// In a process of its own that may have no further thread.
TEST(OffloadDeathTest, without_any_thread_is_an_error_that_says_so) {
  auto without_threads = [] {
    const rlimit none{0, 0};
    Engine engine(sleepy());
    ::setrlimit(RLIMIT_NPROC, &none);
    if (::getuid() == 0 && ::setuid(65534) != 0) std::_Exit(2);
    auto computes = [&]() -> Task<> {
      auto function = [] {};
      co_await engine.offload(function);
    };
    auto body = [&]() -> Task<> {
      const auto error = co_await error_of(computes());
      std::fprintf(stderr, "%s\n", error ? error->what() : "no error");
    };
    engine.run(body());
    std::_Exit(0);
  };
  EXPECT_EXIT(without_threads(), ::testing::ExitedWithCode(0), "ResourceLimit: no thread for offloaded work");
}

}  // namespace
}  // namespace cohort::engine_threads_test
