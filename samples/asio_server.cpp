// SPDX-License-Identifier: Apache-2.0
// A service on Asio whose answers several processes compute together.
//   build/release/bin/cohort run -n 4 -- build/release/bin/asio_server --requests 20
//
// Rank 0 serves on loopback: each line is a number n, the answer the sum of 1 / k^2 for k of 1 to n, which
// goes against pi^2 / 6. Every rank sums its share of the terms. A client in rank 0's process asks, and
// checks.
#include <cohort/asio.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using asio::use_awaitable;
using asio::ip::tcp;

constexpr std::uint64_t kNoMore = 0;

/// What all ranks do for one request: rank 0 says what it is, everybody adds its share.
asio::awaitable<double> sum_together(cohort::AsioCommunicator& comm, std::uint64_t terms) {
  std::array<double, 1> sum = {0};
  for (std::uint64_t k = 1 + comm.rank(); k <= terms; k += comm.size())
    sum[0] += 1 / (static_cast<double>(k) * static_cast<double>(k));
  co_await comm.async_all_reduce(sum, cohort::ReduceOp::sum, use_awaitable);
  co_return sum[0];
}

/// Ranks other than 0: until there is no more.
asio::awaitable<void> help(cohort::AsioCommunicator& comm) {
  for (;;) {
    std::array<std::uint64_t, 1> terms = {kNoMore};
    co_await comm.async_broadcast(terms, 0, use_awaitable);
    if (terms[0] == kNoMore) co_return;
    co_await sum_together(comm, terms[0]);
  }
}

/// One number of a text, without the end of its line; kNoMore if it is none.
std::uint64_t number_in(std::string_view text) {
  std::uint64_t number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || number > 100'000'000) break;
    number = 10 * number + static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

/// Answers one client until it leaves.
asio::awaitable<void> serve(cohort::AsioCommunicator& comm, tcp::acceptor& acceptor) {
  tcp::socket client = co_await acceptor.async_accept(use_awaitable);
  std::string text;
  for (;;) {
    auto into = asio::dynamic_buffer(text, 256);
    std::size_t length = 0;
    try {
      length = co_await asio::async_read_until(client, into, '\n', use_awaitable);
    } catch (const std::system_error&) {  // it has left
    }
    std::array<std::uint64_t, 1> terms = {number_in(std::string_view(text).substr(0, length))};
    co_await comm.async_broadcast(terms, 0, use_awaitable);
    if (terms[0] == kNoMore) co_return;
    const double sum = co_await sum_together(comm, terms[0]);
    text = fmt::format("{}\n", sum);
    const asio::const_buffer answer = asio::buffer(text);
    co_await asio::async_write(client, answer, use_awaitable);
    text.clear();
  }
}

/// Asks so often, and leaves.
asio::awaitable<void> ask(tcp::endpoint service, int requests, int& right) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::socket socket(executor);
  co_await socket.async_connect(service, use_awaitable);
  for (int i = 1; i <= requests; ++i) {
    std::string text = fmt::format("{}\n", 1000 * i);
    const asio::const_buffer question = asio::buffer(text);
    co_await asio::async_write(socket, question, use_awaitable);
    text.clear();
    auto into = asio::dynamic_buffer(text, 256);
    co_await asio::async_read_until(socket, into, '\n', use_awaitable);
    const double distance = 1.6449340668482264 - std::stod(text);
    if (distance > 0 && distance < 1.01 / (1000.0 * i)) ++right;
  }
}

asio::awaitable<void> take_part(asio::io_context& context, cohort::AsioSession& session, int requests) {
  cohort::CommunicatorOptions options = cohort::CommunicatorOptions::from_environment();
  cohort::AsioCommunicator comm = co_await session.async_join(std::move(options), use_awaitable);
  if (comm.rank() != 0) {
    co_await help(comm);
  } else {
    tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    int right = 0;
    auto rethrow = [](const std::exception_ptr& failure) {
      if (failure) std::rethrow_exception(failure);
    };
    asio::co_spawn(context, ask(acceptor.local_endpoint(), requests, right), rethrow);
    co_await serve(comm, acceptor);
    fmt::print("{} of {} answers of {} ranks are right\n", right, requests, comm.size());
    if (right != requests) throw std::runtime_error("an answer is wrong");
  }
  co_await comm.async_close(use_awaitable);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Answers requests on loopback with what several ranks compute");
  int requests = 20;
  app.add_option("--requests", requests, "How many to ask for")->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  try {
    asio::io_context context;
    cohort::AsioSession session(context);
    auto rethrow = [](const std::exception_ptr& failure) {
      if (failure) std::rethrow_exception(failure);
    };
    asio::co_spawn(context, take_part(context, session, requests), rethrow);
    context.run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
