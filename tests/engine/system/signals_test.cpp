// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/signals.h>

#include <cohort/engine/engine.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace cohort::signals_test {
namespace {

using namespace std::chrono_literals;

TEST(Signals, a_signal_is_a_value_before_and_during_the_wait) {
  Engine engine;
  Signals signals(engine, {ProcessSignal::terminate, ProcessSignal::interrupt});
  ::raise(SIGTERM);
  EXPECT_EQ(engine.run(signals.next()), ProcessSignal::terminate);

  auto send_later = [&]() -> Task<> {
    co_await engine.sleep_for(5ms);
    ::kill(::getpid(), SIGINT);
  };
  auto body = [&]() -> Task<ProcessSignal> {
    TaskScope scope;
    scope.spawn(send_later());
    const ProcessSignal signal = co_await signals.next();
    co_await scope.join();
    co_return signal;
  };
  EXPECT_EQ(engine.run(body()), ProcessSignal::interrupt);
}

TEST(Signals, ignored_signals_stay_ignored) {
  Engine engine;
  struct sigaction before {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGHUP, &ignore, &before);
  {
    Signals signals(engine, {ProcessSignal::hang_up, ProcessSignal::terminate});
    ::raise(SIGHUP);
    ::raise(SIGTERM);
    EXPECT_EQ(engine.run(signals.next()), ProcessSignal::terminate);
  }
  ::sigaction(SIGHUP, &before, nullptr);
}

TEST(Signals, afterwards_they_take_their_usual_effect) {
  Engine engine;
  { const Signals signals(engine, {ProcessSignal::terminate}); }
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(::sigismember(&blocked, SIGTERM), 0);
}

TEST(Signals, have_names) {
  EXPECT_EQ(signal_name(ProcessSignal::terminate), "SIGTERM");
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(99), "signal 99");
}

}  // namespace
}  // namespace cohort::signals_test
