// SPDX-License-Identifier: Apache-2.0
// A rank's call that all were through with is over, even if another one fails in the next call, and has its
// memory back, before this rank has found out.
#include <cohort/tests/collectives/core/given_back_memory.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

namespace cohort::test::finished_call_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;

/// The next one, which nobody else comes to.
Task<int> give_up_in_next_call(Communicator& comm, const Work& work, const Memory& memory,
                               const Words& words) {
  auto soon = [&]() -> Task<> {
    co_await comm.engine().sleep_for(1ms);
    co_await give_up();
  };
  const int status = co_await work_until(comm, work, memory, soon());
  words.is_given_back.tell();
  words.goes_on.tell();
  words.is_over.wait();
  co_return status;
}

/// It was through, and hears of it in its next call.
Task<int> go_on(Communicator& comm, const Work& work, const Memory& memory, const Words& words,
                const std::optional<Error>& error) {
  const bool is_right = std::ranges::none_of(memory.out, [](float value) { return value >= kReused; });
  int status = status_of(error);
  if (!error && is_right) {
    const auto next = co_await error_of(work.calls(comm, work, memory.in, memory.out));
    status = status_of(next) == kWasTold ? kWasThrough : kOtherError;
  }
  words.is_over.tell();
  co_return status;
}

Task<int> finish_and_give_up(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, false);
  co_await work.calls(comm, work, memory.in, memory.out);
  co_await work.calls(comm, work, memory.in, memory.out);
  words.is_held.wait();
  const int status = co_await give_up_in_next_call(comm, work, memory, words);
  co_return status;
}

Task<int> be_held_behind_phase(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, true);
  co_await work.calls(comm, work, memory.in, memory.out);
  expect_to_be_held_at(&memory.out[work.count - 1], words);
  const auto error = co_await error_of(work.calls(comm, work, memory.in, memory.out));
  const int status = co_await go_on(comm, work, memory, words, error);
  co_return status;
}

// It has referred to its vector alone, so that its result waits for the phase, and is copied behind it.
TEST(FinishedCall, is_not_failed_by_memory_that_is_withdrawn_in_the_next_one) {
  GivenBack({{"all_reduce", all_reduce, "slots", std::size_t{16} << 10}},
            {finish_and_give_up, be_held_behind_phase}, {kGaveUp, kWasThrough})
      .run();
}

Task<int> be_held_and_give_up_later(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, true);
  co_await work.calls(comm, work, memory.in, memory.out);
  expect_to_be_held_at(&memory.out[2 * work.count - 1], words);
  co_await work.calls(comm, work, memory.in, memory.out);
  const int status = co_await give_up_in_next_call(comm, work, memory, words);
  co_return status;
}

/// It computes from when it has come to the last phase until its peer, with which it still waits there, has
/// lost patience in the next call.
Task<int> compute_in_phase(Communicator& comm, const Work& work, const Words& words) {
  constexpr int kTurns = 20;
  const Memory memory(comm, work, true);
  co_await work.calls(comm, work, memory.in, memory.out);
  std::ranges::fill(memory.out, 0.0f);
  auto compute = [&]() -> Task<> {
    while (!words.is_held.has_come() || memory.out[work.count - 1] != kGiven)
      co_await comm.engine().sleep_for(1ms);
    for (int turn = 0; turn < kTurns; ++turn) co_await comm.engine().sleep_for(1ms);
    words.goes_on.tell();
    words.is_given_back.wait();
  };
  auto both = [&]() -> Task<> {
    co_await when_all(work.calls(comm, work, memory.in, memory.out), compute());
  };
  const auto error = co_await error_of(both());
  const int status = co_await go_on(comm, work, memory, words, error);
  co_return status;
}

TEST(FinishedCall, by_a_schedule_is_not_failed_by_memory_that_is_withdrawn_in_the_next_one) {
  GivenBack({{"all_gather", all_gather, "direct", std::size_t{8} << 10}},
            {be_held_and_give_up_later, compute_in_phase}, {kGaveUp, kWasThrough})
      .run();
}

}  // namespace
}  // namespace cohort::test::finished_call_test
