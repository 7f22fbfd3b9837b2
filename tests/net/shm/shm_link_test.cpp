// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/shm/shm_link.h>

#include <cohort/net/transport_list.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/world_engine.h>

#include <gtest/gtest.h>

#include <functional>

namespace cohort::test::shm_link_test {
namespace {

/// Rank 0's, for the reducer, which is a plain function.
host::AccessCell* giver = nullptr;
host::AccessCell* taker = nullptr;

/// As it is when the giver fails meanwhile, and does not wait any longer.
Reducer withdrawing() {
  const auto fold = [](const Reducer&, std::byte*, const std::byte*, std::size_t) noexcept {
    EXPECT_EQ(taker->touches.load(), 1U) << "the giver does not know that its memory is read";
    giver->withdrawn.store(1);
  };
  return {.fold = fold};
}

using Operation = std::function<Task<>(Link&)>;

/// Runs both on two ranks of one host; what rank 1 takes of rank 0 is withdrawn while it does. Isolated: as
/// if they were processes.
void expect_nothing_is_over(const Operation& giving, const Operation& taking, bool is_isolated) {
  WorldEngine engine;
  const LinkEnd::Choice choice{
      .address = fresh_unix_address(), .kind = cohort::transports()[0], .is_isolated = is_isolated};
  std::array<std::unique_ptr<LinkEnd>, 2> ends;
  auto make = [&](Rank rank) -> Task<> {
    std::unique_ptr<LinkEnd> end = co_await LinkEnd::make(engine, rank, choice);
    ends[rank] = std::move(end);
  };
  CancelScope collective;
  auto play = [&](Rank rank, const Operation& operation) -> Task<> {
    const auto error = co_await error_of(with_scope(collective, operation(ends[rank]->link())));
    EXPECT_TRUE(error) << "rank " << rank << " is through with what was withdrawn";
  };
  auto give_up = [&]() -> Task<> {
    co_await engine.sleep_for(std::chrono::seconds(1));
    EXPECT_EQ(giver->withdrawn.load(), 1U) << "nothing was taken";
    EXPECT_EQ(ends[1]->transports().group()->own().receives(0, LinkEnd::kLane).consumed.load(), 0U);
    collective.cancel();
  };
  auto whole = [&]() -> Task<> {
    co_await when_all(make(0), make(1));
    giver = &ends[0]->transports().group()->own().access();
    taker = &ends[1]->transports().group()->own().access();
    co_await when_all(play(0, giving), play(1, taking), give_up());
    EXPECT_EQ(taker->touches.load(), 0U);
    for (const auto& end : ends) co_await end->finish();
  };
  engine.run(whole());
}

constexpr std::size_t kBytes = 64 * kKiB;

// Both an address of a peer in this process and a place in the segment of one that is not may be a user's.
TEST(ShmLink, what_is_withdrawn_while_it_is_received_is_not_taken) {
  const auto giving = [](Link& link) { return send(link, in_ccl_out(kBytes)); };
  const auto taking = [](Link& link) { return recv_reduce(link, in_ccl_in(kBytes), withdrawing()); };
  for (const bool is_isolated : {false, true}) expect_nothing_is_over(giving, taking, is_isolated);
}

TEST(ShmLink, what_is_withdrawn_while_it_is_got_is_not_taken) {
  const auto waiting = [](Link& link) { return wait(link, Signal::DataSignal); };
  const auto taking = [](Link& link) -> Task<> {
    co_await get_reduce(link, in_send(kBytes), in_ccl_in(kBytes), withdrawing());
    co_await link.post(Signal::DataSignal);
  };
  expect_nothing_is_over(waiting, taking, false);
}

}  // namespace
}  // namespace cohort::test::shm_link_test
