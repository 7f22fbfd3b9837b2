// SPDX-License-Identifier: Apache-2.0
// Settings in braces in a statement with co_await, of which g++ 12 destroys what has a destructor twice.
#include <cohort/asio.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <exception>
#include <vector>

namespace cohort::settings_in_braces_test {
namespace {

using namespace std::chrono_literals;
using asio::use_awaitable;

asio::awaitable<void> call_with_settings(AsioSession& session) {
  AsioCommunicator comm = co_await session.async_join(CommunicatorOptions(), use_awaitable);
  std::vector<float> data(3, 1.0F);
  co_await comm.with({.timeout = 30s}).async_barrier(use_awaitable);
  co_await comm.with({.timeout = 30s, .algorithm = "slots"})
      .async_all_reduce(data, ReduceOp::sum, use_awaitable);
  EXPECT_THAT(data, ::testing::Each(1.0F));
  co_await comm.async_close(use_awaitable);
}

TEST(SettingsInBraces, are_right_where_g_12_destroys_twice) {
  asio::io_context context;
  AsioSession session(context);
  auto rethrow = [](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  };
  asio::co_spawn(context, call_with_settings(session), rethrow);
  EXPECT_NO_THROW(context.run());
}

}  // namespace
}  // namespace cohort::settings_in_braces_test
