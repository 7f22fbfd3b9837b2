// SPDX-License-Identifier: Apache-2.0
// What every transport's link makes of signals, and of operations that are cancelled.
#include <cohort/tests/net/link_conformance.h>

#include <algorithm>
#include <cstring>

namespace cohort::test::link_signals_test {
namespace {

class LinkSignals : public LinkConformance {};

Task<> post_times(LinkEnd& end, Signal signal, std::uint32_t times) {
  for (std::uint32_t i = 0; i < times; ++i) co_await end.link().post(signal);
}
Task<> wait_times(LinkEnd& end, Signal signal, std::uint32_t times) {
  for (std::uint32_t i = 0; i < times; ++i) co_await end.link().wait(signal);
}
/// That nothing comes takes time.
Task<> expect_no_more(LinkEnd& end, Signal signal) {
  CancelScope scope;
  scope.set_deadline(end.engine(), end.engine().now() + std::chrono::milliseconds(20));
  const auto error = co_await error_of(with_scope(scope, wait(end.link(), signal)));
  EXPECT_EQ(kind_of(error), "DeadlineExceeded") << to_string(signal) << " came from nowhere";
}

TEST_P(LinkSignals, signals_are_counted_and_do_not_mix) {
  auto posts = [](LinkEnd& end) -> Task<> {
    co_await post_times(end, Signal::Ack, 3);
    co_await end.link().post(Signal::DataAck);
    co_await end.meet();
    co_await end.link().post(Signal::Ack);
  };
  auto waits = [](LinkEnd& end) -> Task<> {
    co_await end.link().wait(Signal::DataAck);
    co_await wait_times(end, Signal::Ack, 3);
    co_await expect_no_more(end, Signal::Ack);
    co_await end.meet();
    co_await end.link().wait(Signal::Ack);
  };
  run(posts, waits);
}

/// Runs these steps in a collective, and expects that the link fails for what the peer has posted.
Task<> expect_protocol_error(LinkEnd& end, Task<> steps) {
  co_await end.settle();
  FakeHost& host = end.host();
  CancelScope collective;
  host.collective = &collective;
  if (!host.failures.empty()) collective.cancel(host.failures.front());  // found already
  const auto error = co_await error_of(with_scope(collective, std::move(steps)));
  EXPECT_EQ(kind_of(error), "ProtocolError");
  EXPECT_TRUE(error && error->culprit() == end.peer());
  EXPECT_EQ(host.failures.size(), 1U);
  host.collective = nullptr;
}

TEST_P(LinkSignals, a_message_of_another_size_than_is_received_fails_the_link) {
  for (const std::size_t sent : {60U, 68U}) {
    auto sends = [sent](LinkEnd& end) -> Task<> {
      CancelScope scope;
      auto sending = [&]() -> Task<> {
        const auto ended = co_await error_of(with_scope(scope, send(end.link(), in_send(sent))));
        (void)ended;  // it may wait for who receives, or not
      };
      auto ending = [&]() -> Task<> {
        co_await end.meet();
        scope.cancel();
      };
      co_await when_all(sending(), ending());
    };
    auto receives = [](LinkEnd& end) -> Task<> {
      co_await expect_protocol_error(end, recv(end.link(), in_recv(64)));
      co_await end.meet();
    };
    run_troubled(sends, receives);
  }
}

TEST_P(LinkSignals, as_many_signals_as_the_limit_may_wait_to_be_taken) {
  auto posts = [](LinkEnd& end) -> Task<> {
    co_await post_times(end, Signal::Ack, Link::kMostUntaken);
    co_await end.meet();
  };
  auto waits = [](LinkEnd& end) -> Task<> {
    co_await end.meet();
    co_await end.settle();
    co_await wait_times(end, Signal::Ack, Link::kMostUntaken);
  };
  run(posts, waits);
}

TEST_P(LinkSignals, one_untaken_signal_more_fails_the_link) {
  auto posts = [](LinkEnd& end) -> Task<> {
    co_await post_times(end, Signal::DataSignal, Link::kMostUntaken + 1);
    co_await end.meet();
  };
  auto waits = [](LinkEnd& end) -> Task<> {
    co_await end.meet();
    co_await expect_protocol_error(end, wait(end.link(), Signal::DataSignal));
  };
  run_troubled(posts, waits);
}

TEST_P(LinkSignals, signal_left_over_from_a_collective_fails_the_link_and_satisfies_no_later_wait) {
  for (const Signal used_next : {Signal::Ack, Signal::DataAck}) {
    auto posts = [](LinkEnd& end) -> Task<> {
      co_await end.link().post(Signal::Ack);
      co_await end.meet();
      end.begin_next();
    };
    auto waits = [used_next](LinkEnd& end) -> Task<> {
      co_await end.meet();
      co_await end.settle();
      end.begin_next();
      co_await expect_protocol_error(end, wait(end.link(), used_next));
    };
    run_troubled(posts, waits);
  }
}

Task<> then_wait(Task<> first, Link& link) {
  co_await first;
  co_await link.wait(Signal::Ack);
}

/// Of operations that need nobody, too: what is found as they begin ends them, and once.
TEST_P(LinkSignals, signal_left_over_is_found_whatever_the_next_collective_begins_with) {
  const std::function<Task<>(Link&)> operations[] = {
      [](Link& link) { return post(link, Signal::DataAck); },
      [](Link& link) { return put(link, in_send(64), in_ccl_in(64), Signal::DataAck); },
      [](Link& link) { return get(link, in_ccl_out(64), in_recv(64)); },
  };
  for (const auto& operation : operations) {
    auto posts = [](LinkEnd& end) -> Task<> {
      co_await end.link().post(Signal::Ack);
      co_await end.meet();
      end.begin_next();
    };
    auto begins = [&](LinkEnd& end) -> Task<> {
      co_await end.meet();
      co_await end.settle();
      end.begin_next();
      co_await expect_protocol_error(end, then_wait(operation(end.link()), end.link()));
    };
    run_troubled(posts, begins);
  }
}

TEST_P(LinkSignals, signals_of_a_collective_that_this_rank_has_not_begun_wait_for_it) {
  auto posts = [](LinkEnd& end) -> Task<> {
    co_await post_times(end, Signal::Ack, Link::kMostUntaken);
    end.begin_next();
    co_await post_times(end, Signal::Ack, Link::kMostUntaken);
    co_await end.meet();
  };
  auto waits = [](LinkEnd& end) -> Task<> {
    co_await end.meet();
    co_await wait_times(end, Signal::Ack, Link::kMostUntaken);
    co_await expect_no_more(end, Signal::Ack);
    end.begin_next();
    co_await wait_times(end, Signal::Ack, Link::kMostUntaken);
  };
  run(posts, waits);
}

TEST_P(LinkSignals, cancelled_before_anything_came_leaves_the_link_whole) {
  auto sends = [](LinkEnd& end) -> Task<> {
    co_await end.meet();
    end.fill(in_send(100), 6);
    co_await end.link().send(in_send(100));
  };
  auto receives = [](LinkEnd& end) -> Task<> {
    for (int i = 0; i < 2; ++i) {
      CancelScope scope;
      scope.set_deadline(end.engine(), end.engine().now() + std::chrono::milliseconds(2));
      Task<> task = i == 0 ? recv(end.link(), in_recv(100)) : wait(end.link(), Signal::Ack);
      const auto error = co_await error_of(with_scope(scope, std::move(task)));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    }
    co_await end.meet();
    co_await end.link().recv(in_recv(100));
    EXPECT_TRUE(end.holds(in_recv(100), 6));
  };
  run(sends, receives);
}

TEST_P(LinkSignals, started_in_a_cancelled_scope_does_nothing) {
  const auto expect_revoked = [](Task<> task) -> Task<> {
    CancelScope scope;
    scope.cancel(Error(ErrorKind::Revoked, "too late"));
    const auto error = co_await error_of(with_scope(scope, std::move(task)));
    EXPECT_EQ(kind_of(error), "Revoked");
  };
  auto sends = [&](LinkEnd& end) -> Task<> {
    co_await expect_revoked(send(end.link(), in_send(8)));
    co_await end.link().send(in_send(16));
  };
  auto receives = [&](LinkEnd& end) -> Task<> {
    co_await expect_revoked(recv(end.link(), in_recv(8)));
    co_await end.link().recv(in_recv(16));
  };
  run(sends, receives);
}

/// Tasks that a test cancels; counts how each of them ends.
struct Pending {
  TaskScope tasks;
  std::size_t cancelled = 0;
  std::size_t done = 0;

  Task<> count_end(Task<> task) {
    const auto error = co_await error_of(std::move(task));
    ++(kind_of(error) == "PeerDied" ? cancelled : done);
  }
  void spawn(Task<> task) { tasks.spawn(count_end(std::move(task))); }
  Task<> end() {
    tasks.cancel(Error(ErrorKind::PeerDied, "the peer is gone"));
    co_await tasks.join();
  }
};

TEST_P(LinkSignals, pending_operations_end_when_they_are_cancelled_after_a_shutdown_or_before) {
  for (const bool shutdown_first : {true, false}) {
    const auto cancel = [shutdown_first](LinkEnd& end, Pending& pending) -> Task<> {
      co_await end.settle();
      EXPECT_EQ(pending.cancelled, 0U);
      co_await end.meet();
      if (shutdown_first) {
        end.shutdown();
        co_await end.settle();
      }
      co_await pending.end();
    };
    auto sends_and_receives = [&](LinkEnd& end) -> Task<> {
      Pending pending;
      end.fill(in_send(16 * kMiB), 1);
      pending.spawn(recv(end.link(), in_recv(16)));
      pending.spawn(send(end.link(), in_send(16 * kMiB)));
      co_await cancel(end, pending);
      // The send may be over, where the transport keeps all the bytes.
      EXPECT_GE(pending.cancelled, 1U);
      EXPECT_EQ(pending.cancelled + pending.done, 2U);
    };
    auto waits = [&](LinkEnd& end) -> Task<> {
      Pending pending;
      for (const Signal signal : {Signal::Ack, Signal::DataSignal, Signal::DataAck})
        pending.spawn(wait(end.link(), signal));
      co_await cancel(end, pending);
      EXPECT_EQ(pending.cancelled, 3U);
      EXPECT_EQ(pending.done, 0U);
    };
    run_troubled(sends_and_receives, waits);
  }
}

TEST_P(LinkSignals, cancelled_in_the_middle_of_its_bytes_leaves_nothing_behind) {
  constexpr std::size_t kBytes = 16 * kMiB;
  auto sends = [](LinkEnd& end) -> Task<> {
    Pending pending;  // it may also be done, if all went in one go
    end.fill(in_send(kBytes), 1);
    co_await end.meet();
    pending.spawn(send(end.link(), in_send(kBytes)));
    co_await end.meet();
    co_await pending.end();
  };
  auto receives = [](LinkEnd& end) -> Task<> {
    Pending pending;
    end.fill(in_recv(1), 2);
    co_await end.meet();
    pending.spawn(recv(end.link(), in_recv(kBytes)));
    while (!end.holds(in_recv(1), 1)) co_await end.engine().sleep_for(Duration::zero());
    co_await pending.end();
    // The schedule's memory is the caller's again: nothing may write to it any more, also while the peer
    // sends.
    std::memset(end.at(in_recv(kBytes)), 0x5a, kBytes);
    co_await end.meet();
    co_await end.settle();
    const std::byte* const recv_window = end.at(in_recv(kBytes));
    EXPECT_EQ(std::count(recv_window, recv_window + kBytes, std::byte{0x5a}),
              static_cast<std::ptrdiff_t>(kBytes));
  };
  run_troubled(sends, receives);
}

TEST_P(LinkSignals, closing_one_end_is_told_to_the_other_ends_host_once) {
  if (!GetParam().reports_closing) GTEST_SKIP() << "not on this transport";
  auto closes = [](LinkEnd& end) -> Task<> {
    end.shutdown();
    co_await end.meet();
    EXPECT_TRUE(end.host().failures.empty()) << "who closes knows";
  };
  auto is_told = [](LinkEnd& end) -> Task<> {
    CancelScope collective;
    end.host().collective = &collective;
    const auto error = co_await error_of(with_scope(collective, recv(end.link(), in_recv(8))));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_EQ(error->culprit(), 0U);
    EXPECT_EQ(end.host().failures.size(), 1U);
    end.host().collective = nullptr;
    co_await end.meet();
  };
  run_troubled(closes, is_told);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, LinkSignals, ::testing::ValuesIn(transport_cases()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace cohort::test::link_signals_test
