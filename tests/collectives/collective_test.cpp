// SPDX-License-Identifier: Apache-2.0
// A call is awaited once, on the engine of its communicator.
#include <cohort/cohort.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace cohort::collective_test {
namespace {

static_assert(Awaitable<Collective>, "when_all and Stream take it");
static_assert(!std::copyable<Collective>);

/// Alone, on an engine of this thread.
template <class Body>
void run_alone(Body& body) {
  auto main = [&](Engine& engine) -> Task<> {
    Communicator comm = co_await Communicator::join(engine, CommunicatorOptions());
    co_await body(comm);
    co_await comm.close();
  };
  Engine engine;
  engine.run(main(engine));
}

TEST(CollectiveTest, when_all_takes_collectives_and_tasks_beside_each_other) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> a(3, 1.0F);
    std::vector<double> b(30'000, 2.0);
    auto answer = []() -> Task<int> { co_return 42; };
    co_await when_all(comm.all_reduce(a, ReduceOp::sum), comm.all_reduce(b, ReduceOp::sum), comm.barrier());
    EXPECT_EQ(a[2], 4.0F);
    EXPECT_EQ(b[29'999], 8.0);
    const auto results = co_await when_all(comm.barrier(), answer());
    EXPECT_EQ(std::get<1>(results), 42);
    co_await when_all(comm.barrier().with_deadline(std::chrono::seconds(10)));
  };
  for (const char* transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    test::run_ranks_in_world(4, body, std::move(options));
  }
}

TEST(CollectiveTest, one_that_moved_on_or_whose_call_was_refused_need_not_be_awaited) {
  auto body = [](Communicator& comm) -> Task<> {
    Collective first = comm.barrier();
    Collective second = std::move(first);
    co_await std::move(second);
    EXPECT_THROW((void)comm.barrier().with_algorithm("none such"), Error);
    EXPECT_FALSE(comm.barrier().algorithm().empty());
  };
  run_alone(body);
}

TEST(CollectiveTest, one_in_a_task_or_stream_that_never_runs_may_be_dropped) {
  auto body = [](Communicator& comm) -> Task<> {
    { const Task<> never = comm.barrier(); }
    Stream stream(comm.engine());
    auto fail = []() -> Task<> {
      throw std::runtime_error("first");
      co_return;
    };
    stream.enqueue(fail());
    stream.enqueue(comm.barrier());
    bool has_failed = false;
    try {
      co_await stream.synchronize();
    } catch (const std::runtime_error&) {
      has_failed = true;
    }
    EXPECT_TRUE(has_failed);
  };
  run_alone(body);
}

TEST(CollectiveTest, an_exception_before_the_await_is_what_is_told) {
  auto body = [](Communicator& comm) -> Task<> {
    auto between = [&]() -> Task<> {
      Collective barrier = comm.barrier();
      if (comm.size() == 1) throw std::runtime_error("between");
      co_await std::move(barrier);
    };
    std::string told;
    try {
      co_await between();
    } catch (const std::runtime_error& error) {
      told = error.what();
    }
    EXPECT_EQ(told, "between");
  };
  run_alone(body);
}

TEST(CollectiveTest, one_that_was_cancelled_tells_the_others_which_it_was_and_why) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(3);
    CancelScope scope;
    Task<> call = with_scope(scope, Task<>(comm.all_reduce(data, ReduceOp::sum)));
    TaskScope beside;
    auto cancel = [&]() -> Task<> {
      co_await comm.engine().sleep_for(std::chrono::milliseconds(20));
      scope.cancel();
    };
    beside.spawn(cancel());
    std::exception_ptr failure;
    try {
      co_await call;
    } catch (...) {
      failure = std::current_exception();
    }
    co_await beside.join();
    if (failure) std::rethrow_exception(failure);
  };
  auto late = [&](Communicator& comm) -> Task<> {
    if (comm.rank() != 0) {
      co_await body(comm);
      co_return;
    }
    while (!comm.is_failed()) co_await comm.engine().sleep_for(std::chrono::milliseconds(1));
    throw Error(comm.failure());
  };
  const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(2, late);
  ASSERT_TRUE(outcomes[0].error && outcomes[1].error);
  EXPECT_EQ(outcomes[0].error->kind(), ErrorKind::PeerAborted);
  EXPECT_THAT(outcomes[0].error->what(),
              testing::HasSubstr("gave up in collective #1, all_reduce(float32 sum, count 3): Cancelled: the "
                                 "caller asked this work to stop"));
}

TEST(CollectiveDeathTest, one_that_is_never_awaited_asserts_and_names_itself) {
  auto body = [](Communicator& comm) -> Task<> {
    auto forget = [&] { (void)comm.barrier(); };
    EXPECT_DEATH(forget(), "barrier was called and never awaited: the other ranks wait for it");
    co_return;
  };
  run_alone(body);
}

TEST(CollectiveDeathTest, one_that_is_awaited_twice_asserts) {
  auto await_twice = [](Communicator& comm) -> Task<> {
    Collective barrier = comm.barrier();
    co_await std::move(barrier);
    co_await std::move(barrier);
  };
  EXPECT_DEATH(run_alone(await_twice), "this barrier was awaited or moved from before");
}

TEST(CollectiveDeathTest, one_that_is_awaited_on_another_engine_asserts) {
  auto elsewhere = [](Communicator& comm) -> Task<> {
    auto call = [&]() -> Task<> { co_await comm.barrier(); };
    Engine other;
    other.run(call());
    co_return;
  };
  EXPECT_DEATH(run_alone(elsewhere),
               "barrier on 'world' was awaited on another engine than its communicator's");
}

}  // namespace
}  // namespace cohort::collective_test
