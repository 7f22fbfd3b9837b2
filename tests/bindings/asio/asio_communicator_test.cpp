// SPDX-License-Identifier: Apache-2.0
#include <cohort/asio.h>

#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace cohort::asio_communicator_test {
namespace {

using namespace std::chrono_literals;
using asio::use_awaitable;
using cohort::test::error_from;
using cohort::test::kind_of;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Body = std::function<asio::awaitable<void>(AsioCommunicator&)>;

asio::awaitable<void> take_part(AsioSession& session, CommunicatorOptions options, const Body& body) {
  AsioCommunicator comm = co_await session.async_join(std::move(options), use_awaitable);
  co_await body(comm);
  co_await comm.async_close(use_awaitable);
}

/// Runs it on so many ranks, each a thread with a context of its own.
void run_ranks(Rank ranks, const Body& body, const std::string& transport = {}) {
  CommunicatorOptions options;
  options.transport = transport;
  options.is_isolated = true;
  options.join.address = fmt::format("unix:cohort-asio-{:016x}", random_incarnation());
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      asio::io_context context;
      AsioSession session(context);
      auto rethrow = [](const std::exception_ptr& failure) {
        if (failure) std::rethrow_exception(failure);
      };
      asio::co_spawn(context, take_part(session, options.for_rank(rank, ranks), body), rethrow);
      EXPECT_NO_THROW(context.run());
    });
  for (std::thread& thread : threads) thread.join();
}

asio::awaitable<void> combine(AsioCommunicator& comm) {
  const auto ranks = static_cast<float>(comm.size());
  const std::vector<float> ones(2 * comm.size(), 1.0F);
  std::vector<float> sums(ones.size());
  co_await comm.async_all_reduce(ones, sums, ReduceOp::sum, use_awaitable);
  EXPECT_THAT(sums, Each(ranks));
  co_await comm.async_all_reduce(sums, scaled_sum(0.5), use_awaitable);
  EXPECT_THAT(sums, Each(ranks * ranks / 2));
  const double one = 1;
  const double sum = co_await comm.async_all_reduce(one, ReduceOp::sum, use_awaitable);
  EXPECT_EQ(sum, comm.size());
  const std::int16_t of_root =
      co_await comm.async_broadcast(static_cast<std::int16_t>(comm.rank()), 1, use_awaitable);
  EXPECT_EQ(of_root, 1);
  std::vector<float> at_root(ones.size());
  co_await comm.async_reduce(ones, at_root, ReduceOp::sum, 1, use_awaitable);
  EXPECT_THAT(at_root, Each(comm.rank() == 1 ? ranks : 0.0F));
  at_root = ones;
  co_await comm.async_reduce(at_root, ReduceOp::sum, 0, use_awaitable);
  EXPECT_THAT(at_root, Each(comm.rank() == 0 ? ranks : 1.0F));
  std::vector<float> share(2);
  co_await comm.async_reduce_scatter(ones, share, ReduceOp::sum, use_awaitable);
  EXPECT_THAT(share, Each(ranks));
  co_await comm.async_scan(ones, sums, ReduceOp::sum, use_awaitable);
  EXPECT_THAT(sums, Each(static_cast<float>(comm.rank() + 1)));
  sums.assign(sums.size(), 0.0F);
  co_await comm.async_exclusive_scan(ones, sums, ReduceOp::sum, use_awaitable);
  EXPECT_THAT(sums, Each(static_cast<float>(comm.rank())));
}

asio::awaitable<void> move(AsioCommunicator& comm) {
  co_await comm.async_barrier(use_awaitable);
  std::array<std::int64_t, 2> word = {comm.rank(), 7};
  co_await comm.async_broadcast(word, 1, use_awaitable);
  EXPECT_EQ(word[0], 1);
  struct Setting {
    double rate = 0;
  } setting{comm.rank() == 2 ? 0.25 : 0.0};
  co_await comm.async_broadcast_bytes(setting, 2, use_awaitable);
  EXPECT_EQ(setting.rate, 0.25);
  const std::array<std::int32_t, 1> mine = {static_cast<std::int32_t>(comm.rank())};
  std::vector<std::int32_t> all(comm.size());
  co_await comm.async_all_gather(mine, all, use_awaitable);
  EXPECT_THAT(all, ElementsAre(0, 1, 2));
  std::vector<std::int32_t> gathered(comm.size(), -1);
  co_await comm.async_gather(mine, gathered, 0, use_awaitable);
  EXPECT_EQ(gathered[2], comm.rank() == 0 ? 2 : -1);
  std::array<std::int32_t, 1> got = {-1};
  co_await comm.async_scatter(all, got, 1, use_awaitable);
  EXPECT_EQ(got, mine);
  std::vector<std::int32_t> to_each(comm.size(), mine[0]);
  co_await comm.async_all_to_all(to_each, all, use_awaitable);
  EXPECT_THAT(all, ElementsAre(0, 1, 2));
}

/// Rank r has r + 1 elements.
asio::awaitable<void> move_blocks_that_differ(AsioCommunicator& comm) {
  const std::array<std::size_t, 3> counts = {1, 2, 3};
  const std::vector<float> mine(comm.rank() + 1, static_cast<float>(comm.rank()));
  std::vector<float> all(6, -1.0F);
  co_await comm.async_all_gather_v(mine, all, counts, use_awaitable);
  EXPECT_THAT(all, ElementsAre(0, 1, 1, 2, 2, 2));
  co_await comm.async_gather_v(mine, all, counts, 0, use_awaitable);
  std::vector<float> share(mine.size());
  co_await comm.async_scatter_v(all, share, counts, 0, use_awaitable);
  EXPECT_EQ(share, mine);
  co_await comm.async_reduce_scatter_v(all, share, counts, ReduceOp::max, use_awaitable);
  EXPECT_EQ(share, mine);
  const std::array<std::size_t, 3> of_each = {mine.size(), mine.size(), mine.size()};
  std::vector<float> taken(3 * mine.size());
  co_await comm.async_all_to_all_v(all, counts, taken, of_each, use_awaitable);
  EXPECT_THAT(taken, Each(static_cast<float>(comm.rank())));
  const std::array<std::size_t, 9> matrix = {1, 2, 3, 1, 2, 3, 1, 2, 3};
  taken.assign(taken.size(), -1.0F);
  co_await comm.async_all_to_all_vc(all, taken, matrix, use_awaitable);
  EXPECT_THAT(taken, Each(static_cast<float>(comm.rank())));
}

asio::awaitable<void> send_messages(AsioCommunicator& comm) {
  std::int64_t word = comm.rank();
  if (comm.rank() != 0) {
    co_await comm.async_send(word, 0, 4, use_awaitable);
    co_await comm.async_recv(word, 0, 5, use_awaitable);
    EXPECT_EQ(word, 100);
    co_return;
  }
  for (int i = 0; i < 2; ++i) {
    const Rank from = co_await comm.async_recv_any(word, 4, use_awaitable);
    EXPECT_EQ(word, static_cast<std::int64_t>(from));
    const std::int64_t answer = 100;
    co_await comm.async_send(answer, from, 5, use_awaitable);
  }
}

asio::awaitable<void> make_groups(AsioCommunicator& comm) {
  const int color = comm.rank() == 1 ? -1 : 0;
  AsioCommunicator outer = co_await comm.async_split(color, 0, use_awaitable);
  EXPECT_EQ(static_cast<bool>(outer), comm.rank() != 1);
  if (comm.rank() == 1) co_return;
  EXPECT_EQ(outer.size(), 2U);
  std::vector<Rank> ranks = {2, 0};
  AsioCommunicator pair = co_await comm.async_group(std::move(ranks), "pair", use_awaitable);
  EXPECT_EQ(pair.rank(), comm.rank() == 2 ? 0U : 1U);
  co_await pair.async_barrier(use_awaitable);
}

TEST(AsioCommunicator, every_call_gives_what_it_says) {
  for (const char* transport : {"shm", "tcp"}) {
    const Body body = [](AsioCommunicator& comm) -> asio::awaitable<void> {
      co_await combine(comm);
      co_await move(comm);
      co_await move_blocks_that_differ(comm);
      co_await send_messages(comm);
      co_await make_groups(comm);
    };
    run_ranks(3, body, transport);
  }
}

TEST(AsioCommunicator, several_calls_are_under_way_and_the_context_goes_on) {
  run_ranks(2, [](AsioCommunicator& comm) -> asio::awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    std::vector<std::vector<float>> data(5, std::vector<float>(20'000, 1.0F));
    int over = 0;
    for (auto& one : data) {
      auto count = [&over](const std::exception_ptr& failure) { over += failure ? 100 : 1; };
      comm.async_all_reduce(one, ReduceOp::sum, asio::bind_executor(executor, count));
    }
    EXPECT_EQ(over, 0) << "a handler ran where its call was initiated";
    asio::steady_timer timer(executor);
    while (over < 5) {
      timer.expires_after(1ms);
      co_await timer.async_wait(use_awaitable);
    }
    EXPECT_EQ(over, 5);
    for (const auto& one : data) EXPECT_EQ(one.back(), 2.0F);
  });
}

TEST(AsioCommunicator, futures_and_strands_of_a_pool_take_results_too) {
  CommunicatorOptions options;
  asio::thread_pool pool(2);
  AsioSession session(pool);
  AsioCommunicator comm = session.async_join(options, asio::use_future).get();
  std::vector<float> data(3, 2.0F);
  comm.async_all_reduce(data, ReduceOp::sum, asio::use_future).get();
  EXPECT_THAT(data, Each(2.0F));
  auto strand = asio::make_strand(pool);
  std::promise<bool> ran;
  comm.async_barrier(asio::bind_executor(strand, [&](const std::exception_ptr& failure) {
    ran.set_value(!failure && strand.running_in_this_thread());
  }));
  EXPECT_TRUE(ran.get_future().get());
  comm.async_close(asio::use_future).get();
  pool.join();
}

TEST(AsioCommunicator, its_session_may_end_in_a_handler) {
  asio::io_context context;
  std::optional<AsioSession> session(context);
  AsioCommunicator comm;
  bool has_ended = false;
  session->async_join(CommunicatorOptions(), [&](const std::exception_ptr& failure, AsioCommunicator joined) {
    ASSERT_FALSE(failure);
    comm = std::move(joined);
    comm.async_close([&](const std::exception_ptr&) {
      comm = AsioCommunicator();
      session.reset();
      has_ended = true;
    });
  });
  context.run();
  EXPECT_TRUE(has_ended);
}

/// Of this process; a session has one. The kernel lists a thread a little longer than it can be joined: until
/// so many looks in a row have found as many.
std::ptrdiff_t count_threads() {
  constexpr int kLooks = 20;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::ptrdiff_t count = 0;
  for (int looks = 0; looks < kLooks && std::chrono::steady_clock::now() < until; ++looks) {
    const std::filesystem::directory_iterator threads("/proc/self/task");
    const std::ptrdiff_t now = std::distance(begin(threads), end(threads));
    if (std::exchange(count, now) != now) looks = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return count;
}

TEST(AsioCommunicator, what_nobody_completes_keeps_its_session_as_long_as_the_context_keeps_it) {
  std::thread([] {}).join();  // a sanitizer's own begins with the first one
  const std::ptrdiff_t threads = count_threads();
  auto context = std::make_unique<asio::io_context>();
  bool is_completed = false;
  {
    AsioSession session(*context);
    AsioCommunicator comm;
    session.async_join(CommunicatorOptions(),
                       [&](const std::exception_ptr&, AsioCommunicator joined) { comm = std::move(joined); });
    context->run();
    ASSERT_TRUE(comm);
    comm.async_barrier([&](const std::exception_ptr&) { is_completed = true; });
  }
  // The request is the communicator's last owner, and needs the session to let go of it.
  EXPECT_GT(count_threads(), threads);
  context.reset();
  EXPECT_EQ(count_threads(), threads);
  EXPECT_FALSE(is_completed);
}

asio::awaitable<void> fail_by(Body call, std::string& kind, std::string& text) {
  AsioCommunicator none;
  try {
    co_await call(none);
  } catch (const Error& error) {
    kind = to_string(error.kind());
    text = error.what();
  }
}

TEST(AsioCommunicator, errors_arrive_as_they_are_thrown_elsewhere) {
  run_ranks(2, [](AsioCommunicator& comm) -> asio::awaitable<void> {
    std::string kind;
    std::string text;
    const Body wrong = [&comm](AsioCommunicator&) -> asio::awaitable<void> {
      std::vector<float> data(3);
      AsioCommunicator named = comm.with({.algorithm = "magic"});
      co_await named.async_all_reduce(data, ReduceOp::sum, use_awaitable);
    };
    co_await fail_by(wrong, kind, text);
    EXPECT_EQ(kind, "InvalidArgument");
    EXPECT_THAT(text, HasSubstr("magic"));
    const Body none = [](AsioCommunicator& of) -> asio::awaitable<void> {
      co_await of.async_barrier(use_awaitable);
    };
    co_await fail_by(none, kind, text);
    EXPECT_THAT(text, HasSubstr("is none"));
    const Body late = [&comm](AsioCommunicator&) -> asio::awaitable<void> {
      AsioCommunicator hasty = comm.with({.timeout = 100ms});
      co_await hasty.async_barrier(use_awaitable);
    };
    if (comm.rank() == 0) {
      co_await fail_by(late, kind, text);
      EXPECT_EQ(kind, "DeadlineExceeded");
    } else {
      while (!comm.shared()->failure()) std::this_thread::sleep_for(1ms);
    }
  });
}

TEST(AsioCommunicator, a_cancellation_slot_cancels_the_call_and_the_buffer_is_free_then) {
  run_ranks(2, [](AsioCommunicator& comm) -> asio::awaitable<void> {
    if (comm.rank() != 0) {
      while (!comm.shared()->failure()) std::this_thread::sleep_for(1ms);
      co_return;
    }
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::cancellation_signal signal;
    std::string kind;
    {
      std::vector<float> data(1000);
      auto handler = [&kind](const std::exception_ptr& failure) {
        const auto error = error_from([&] {
          if (failure) std::rethrow_exception(failure);
        });
        kind = kind_of(error);
      };
      comm.async_all_reduce(data, ReduceOp::sum, asio::bind_cancellation_slot(signal.slot(), handler));
      asio::steady_timer timer(executor);
      timer.expires_after(20ms);
      co_await timer.async_wait(use_awaitable);
      EXPECT_EQ(kind, "");
      signal.emit(asio::cancellation_type::terminal);
      while (kind.empty()) {
        timer.expires_after(1ms);
        co_await timer.async_wait(use_awaitable);
      }
    }
    EXPECT_EQ(kind, "Cancelled");
    signal.emit(asio::cancellation_type::terminal);  // of what is over: nothing
  });
}

TEST(AsioCommunicator, refuses_to_be_without_counts) {
  run_ranks(2, [](AsioCommunicator& comm) -> asio::awaitable<void> {
    const std::vector<std::size_t> none;
    const std::vector<float> in(2);
    std::vector<float> out(4);
    std::vector<std::string> kinds;
    auto handler = [&kinds](const std::exception_ptr& failure) {
      const auto error = error_from([&] {
        if (failure) std::rethrow_exception(failure);
      });
      kinds.push_back(kind_of(error));
    };
    comm.async_all_gather_v(in, out, none, handler);
    out.resize(2);
    comm.async_all_to_all_v(in, none, out, none, handler);
    co_await comm.async_barrier(use_awaitable);
    EXPECT_THAT(kinds, ElementsAre("InvalidArgument", "InvalidArgument"));
  });
}

TEST(AsioCommunicator, closing_completes_what_is_under_way) {
  run_ranks(2, [](AsioCommunicator& comm) -> asio::awaitable<void> {
    if (comm.rank() != 0) {
      while (!comm.shared()->failure()) std::this_thread::sleep_for(1ms);
      co_return;
    }
    std::string kind;
    comm.async_barrier([&kind](const std::exception_ptr& failure) {
      kind = kind_of(error_from([&] { std::rethrow_exception(failure); }));
    });
    co_await comm.async_close(use_awaitable);
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor);
    while (kind.empty()) {
      timer.expires_after(1ms);
      co_await timer.async_wait(use_awaitable);
    }
    EXPECT_EQ(kind, "Cancelled");
  });
}

}  // namespace
}  // namespace cohort::asio_communicator_test
