// SPDX-License-Identifier: Apache-2.0
// What the engine tells where nothing can be allocated.
#include <cohort/engine/engine.h>
#include <cohort/engine/io/epoll_driver.h>
#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/no_memory.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>

namespace cohort::no_memory_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::kind_of;
using cohort::test::NoMemory;
using cohort::test::VirtualEngine;

TEST(NoMemory, a_deadline_that_passes_is_told_all_the_same) {
  VirtualEngine engine;
  std::optional<Error> error;
  bool was_refused = false;
  auto late = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);  // the queue of timers has grown
    const NoMemory no_memory;
    try {
      co_await engine.sleep_for(1h);
    } catch (const Error& told) {
      error = told;
    }
    was_refused = no_memory.has_refused();
  };
  auto body = [&]() -> Task<> {
    CancelScope scope;
    scope.set_deadline(engine, engine.now() + 10ms);
    co_await with_scope(scope, late());
  };
  engine.run(body());
  EXPECT_TRUE(was_refused);
  EXPECT_EQ(kind_of(error), "DeadlineExceeded");
}

TEST(NoMemory, cancelling_needs_none) {
  VirtualEngine engine;
  CancelScope scope;
  {
    const NoMemory no_memory;
    scope.cancel();
    EXPECT_FALSE(no_memory.has_refused());
  }
  EXPECT_EQ(scope.cause().kind(), ErrorKind::Cancelled);
}

/// What waits takes memory of the driver's; what is over does not.
TEST(NoMemory, a_request_that_epoll_cannot_keep_ends_with_that_error) {
  Engine engine({.driver = make_epoll_driver("for a test"), .compute_threads = 1});
  auto [here, there] = test::socket_pair();
  int waited = 0;
  int over = 0;
  bool was_refused = false;
  std::byte byte{};
  const auto receive = [&]() -> Task<> {
    const IoOperation::Request request{
        .kind = IoKind::recv, .descriptor = here.number(), .address = &byte, .bytes = 1};
    IoOperation waiting(engine.driver(), request);
    IoOperation ending(engine.driver(), request);
    {
      const NoMemory no_memory;
      waited = co_await waiting;
      was_refused = no_memory.has_refused();
    }
    EXPECT_EQ(::write(there.number(), &byte, 1), 1);
    const NoMemory no_memory;
    over = co_await ending;
  };
  engine.run(receive());
  EXPECT_TRUE(was_refused);
  EXPECT_EQ(waited, -ENOMEM);
  EXPECT_EQ(over, 1);
}

}  // namespace
}  // namespace cohort::no_memory_test
