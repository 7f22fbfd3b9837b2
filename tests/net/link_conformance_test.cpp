// SPDX-License-Identifier: Apache-2.0
// What every transport's link must do, whatever moves the bytes.
#include <cohort/net/transports.h>
#include <cohort/tests/net/link_pair.h>
#include <cohort/tests/support/queue_transport.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>

namespace cohort::testing {
namespace {

/// A transport under test, and what it promises beyond moving bytes.
struct TransportCase {
  std::string name;
  TransportKind kind;
  bool is_isolated = false;
  /// put and get may name user windows of the peer.
  bool reaches_user_windows = false;
  /// Closing one end is told to the other end's host.
  bool reports_closing = false;

  friend std::ostream& operator<<(std::ostream& out, const TransportCase& transport) {
    return out << transport.name;
  }
};

TransportKind library_kind(std::string_view name) {
  const auto kinds = transports();
  return *std::ranges::find(kinds, name, &TransportKind::name);
}

inline constexpr std::size_t kSizes[] = {
    0, 1, 63, 64, 65, 4 * kKiB, 64 * kKiB - 64, 64 * kKiB + 1, kMiB + 3, 8 * kMiB};

class LinkConformance : public ::testing::TestWithParam<TransportCase> {
 protected:
  /// Runs body(pair) with a new pair of links, ends them, and expects that no host was told of any trouble.
  template <class Body>
  void run(Body& body) {
    auto untroubled = [&](LinkPair& pair) -> Task<> {
      co_await body(pair);
      EXPECT_TRUE(pair.host(0).failures.empty() && pair.host(1).failures.empty());
      EXPECT_TRUE(pair.host(0).mismatches.empty() && pair.host(1).mismatches.empty());
    };
    run_troubled(untroubled);
  }

  /// The same, where trouble is what the test is about.
  template <class Body>
  void run_troubled(Body& body) {
    auto whole = [&]() -> Task<> {
      const auto& [name, kind, is_isolated, reaches, reports] = GetParam();
      const std::unique_ptr<LinkPair> pair = co_await LinkPair::make(engine, kind, is_isolated);
      const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), body(*pair)));
      EXPECT_FALSE(error) << error->what();
      co_await pair->finish();
    };
    engine.run(whole());
  }

  Engine engine;
};

TEST_P(LinkConformance, ranks_whose_memory_is_mapped_are_ranks_of_one_host) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (const Rank rank : {0U, 1U}) {
      PeerTransports& transports = pair.transports(rank);
      const bool is_mapped = transports.capabilities(1 - rank).maps_memory;
      EXPECT_EQ(transports.ranks_of_host().size(), is_mapped ? 2U : 1U);
      EXPECT_EQ(transports.group() != nullptr, is_mapped);
      EXPECT_EQ(transports.name(), pair.link(rank).transport());
      EXPECT_EQ(transports.name_for(1 - rank), transports.name());
    }
    co_return;
  };
  run(body);
}

TEST_P(LinkConformance, send_meets_a_recv_that_waits_already) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      const auto seed = static_cast<unsigned>(bytes % 97);
      pair.fill(0, in_send(bytes, 3), seed);
      co_await when_all(recv(pair.link(1), in_recv(bytes, 5)), send(pair.link(0), in_send(bytes, 3)));
      EXPECT_TRUE(pair.holds(1, in_recv(bytes, 5), seed)) << bytes;
    }
  };
  run(body);
}

TEST_P(LinkConformance, recv_finds_what_was_sent_before) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      pair.fill(0, in_send(bytes), 5);
      auto late = [&]() -> Task<> {
        co_await engine.sleep_for(std::chrono::milliseconds(2));
        co_await pair.link(1).recv(in_recv(bytes));
      };
      co_await when_all(send(pair.link(0), in_send(bytes)), late());
      EXPECT_TRUE(pair.holds(1, in_recv(bytes), 5)) << bytes;
    }
  };
  run(body);
}

TEST_P(LinkConformance, recv_reduce_combines_whole_elements) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      pair.fill(0, in_send(bytes), 1);
      pair.fill(1, in_recv(bytes), 2);
      const Reducer reducer = adder_for(bytes);
      co_await when_all(recv_reduce(pair.link(1), in_recv(bytes), reducer),
                        send(pair.link(0), in_send(bytes)));
      EXPECT_TRUE(pair.holds_sum(1, in_recv(bytes), 1, 2)) << bytes;
    }
  };
  run(body);
}

TEST_P(LinkConformance, recv_reduce_combines_whole_elements_behind_a_message_of_odd_size) {
  auto body = [&](LinkPair& pair) -> Task<> {
    constexpr std::size_t kBytes = 300'000;
    pair.fill(0, in_send(kBytes), 1);
    pair.fill(1, in_recv(kBytes), 2);
    const Reducer reducer = adder(8);
    auto sends = [&]() -> Task<> {
      co_await pair.link(0).send(in_send(13));
      co_await pair.link(0).send(in_send(kBytes));
    };
    auto receives = [&]() -> Task<> {
      co_await engine.sleep_for(std::chrono::milliseconds(2));
      co_await pair.link(1).recv(in_ccl_in(13));
      co_await pair.link(1).recv_reduce(in_recv(kBytes), reducer);
    };
    co_await when_all(sends(), receives());
    EXPECT_TRUE(pair.holds_sum(1, in_recv(kBytes), 1, 2));
  };
  run(body);
}

TEST_P(LinkConformance, put_writes_the_peers_window_before_its_signal) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      pair.fill(0, in_send(bytes), 9);
      auto check = [&]() -> Task<> {
        co_await pair.link(1).wait(Signal::DataSignal);
        EXPECT_TRUE(pair.holds(1, in_ccl_in(bytes, 7), 9)) << bytes;
      };
      co_await when_all(check(), put(pair.link(0), in_send(bytes), in_ccl_in(bytes, 7), Signal::DataSignal));
    }
  };
  run(body);
}

TEST_P(LinkConformance, get_reads_the_peers_window) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      pair.fill(1, in_ccl_out(bytes, 64), 4);
      co_await pair.link(0).get(in_ccl_out(bytes, 64), in_recv(bytes, 1));
      EXPECT_TRUE(pair.holds(0, in_recv(bytes, 1), 4)) << bytes;
    }
  };
  run(body);
}

TEST_P(LinkConformance, get_reduce_combines_the_peers_window_with_mine) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      pair.fill(1, in_ccl_in(bytes), 3);
      pair.fill(0, in_recv(bytes), 8);
      const Reducer reducer = adder_for(bytes);
      co_await pair.link(0).get_reduce(in_ccl_in(bytes), in_recv(bytes), reducer);
      EXPECT_TRUE(pair.holds_sum(0, in_recv(bytes), 3, 8)) << bytes;
    }
  };
  run(body);
}

TEST_P(LinkConformance, put_and_get_reach_user_windows) {
  if (!GetParam().reaches_user_windows) GTEST_SKIP() << "not on this transport";
  auto body = [&](LinkPair& pair) -> Task<> {
    pair.fill(0, in_send(100'000), 1);
    pair.fill(1, in_send(100'000), 2);
    co_await when_all(wait(pair.link(1), Signal::Ack),
                      put(pair.link(0), in_send(100'000), in_recv(100'000), Signal::Ack));
    co_await pair.link(0).get(in_send(100'000), in_recv(100'000));
    EXPECT_TRUE(pair.holds(1, in_recv(100'000), 1));
    EXPECT_TRUE(pair.holds(0, in_recv(100'000), 2));
  };
  run(body);
}

TEST_P(LinkConformance, signals_are_counted_and_do_not_mix) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (int i = 0; i < 3; ++i) co_await pair.link(0).post(Signal::Ack);
    co_await pair.link(0).post(Signal::DataAck);
    co_await pair.link(1).wait(Signal::DataAck);
    for (int i = 0; i < 3; ++i) co_await pair.link(1).wait(Signal::Ack);
    CancelScope scope;
    scope.set_deadline(engine, engine.now() + std::chrono::milliseconds(20));
    const auto error = co_await error_of(with_scope(scope, wait(pair.link(1), Signal::Ack)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded") << "a fourth Ack came from nowhere";
    co_await pair.link(0).post(Signal::Ack);
    co_await pair.link(1).wait(Signal::Ack);
  };
  run(body);
}

/// Runs what rank 1 does in a collective, and expects that its link fails for what rank 0 has posted.
Task<> expect_protocol_error(LinkPair& pair, Task<> steps) {
  co_await Engine::current().sleep_for(std::chrono::milliseconds(5));  // what was posted comes
  CancelScope collective;
  pair.host(1).collective = &collective;
  if (!pair.host(1).failures.empty()) collective.cancel(pair.host(1).failures.front());  // found already
  const auto error = co_await error_of(with_scope(collective, std::move(steps)));
  EXPECT_EQ(kind_of(error), "ProtocolError");
  EXPECT_TRUE(error && error->culprit() == Rank{0});
  EXPECT_EQ(pair.host(1).failures.size(), 1U);
  pair.host(1).collective = nullptr;
}

TEST_P(LinkConformance, as_many_signals_as_the_limit_may_wait_to_be_taken) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (std::uint32_t i = 0; i < Link::kMostUntaken; ++i) co_await pair.link(0).post(Signal::Ack);
    co_await engine.sleep_for(std::chrono::milliseconds(5));
    for (std::uint32_t i = 0; i < Link::kMostUntaken; ++i) co_await pair.link(1).wait(Signal::Ack);
  };
  run(body);
}

TEST_P(LinkConformance, one_untaken_signal_more_fails_the_link) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (std::uint32_t i = 0; i <= Link::kMostUntaken; ++i) co_await pair.link(0).post(Signal::DataSignal);
    co_await expect_protocol_error(pair, wait(pair.link(1), Signal::DataSignal));
  };
  run_troubled(body);
}

TEST_P(LinkConformance, signal_left_over_from_a_collective_fails_the_link_and_satisfies_no_later_wait) {
  for (const Signal used_next : {Signal::Ack, Signal::DataAck}) {
    auto body = [&](LinkPair& pair) -> Task<> {
      co_await pair.link(0).post(Signal::Ack);
      co_await engine.sleep_for(std::chrono::milliseconds(5));
      for (const Rank rank : {0U, 1U}) pair.begin_next(rank);
      co_await expect_protocol_error(pair, wait(pair.link(1), used_next));
    };
    run_troubled(body);
  }
}

Task<> then_wait(Task<> first, Link& link) {
  co_await first;
  co_await link.wait(Signal::Ack);
}

/// Of operations that need nobody, too: what is found as they begin ends them, and once.
TEST_P(LinkConformance, signal_left_over_is_found_whatever_the_next_collective_begins_with) {
  const std::function<Task<>(Link&)> operations[] = {
      [](Link& link) { return post(link, Signal::DataAck); },
      [](Link& link) { return put(link, in_send(64), in_ccl_in(64), Signal::DataAck); },
      [](Link& link) { return get(link, in_ccl_out(64), in_recv(64)); },
  };
  for (const auto& operation : operations) {
    auto body = [&](LinkPair& pair) -> Task<> {
      co_await pair.link(0).post(Signal::Ack);
      co_await engine.sleep_for(std::chrono::milliseconds(5));
      for (const Rank rank : {0U, 1U}) pair.begin_next(rank);
      Link& link = pair.link(1);
      co_await expect_protocol_error(pair, then_wait(operation(link), link));
    };
    run_troubled(body);
  }
}

TEST_P(LinkConformance, signals_of_a_collective_that_this_rank_has_not_begun_wait_for_it) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (std::uint32_t i = 0; i < Link::kMostUntaken; ++i) co_await pair.link(0).post(Signal::Ack);
    pair.begin_next(0);
    for (std::uint32_t i = 0; i < Link::kMostUntaken; ++i) co_await pair.link(0).post(Signal::Ack);
    for (std::uint32_t i = 0; i < Link::kMostUntaken; ++i) co_await pair.link(1).wait(Signal::Ack);
    CancelScope scope;
    scope.set_deadline(engine, engine.now() + std::chrono::milliseconds(20));
    const auto error = co_await error_of(with_scope(scope, wait(pair.link(1), Signal::Ack)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded") << "an Ack of the next collective was taken";
    pair.begin_next(1);
    for (std::uint32_t i = 0; i < Link::kMostUntaken; ++i) co_await pair.link(1).wait(Signal::Ack);
  };
  run(body);
}

TEST_P(LinkConformance, effects_arrive_in_order) {
  auto body = [&](LinkPair& pair) -> Task<> {
    constexpr std::size_t kRounds = 50;
    constexpr std::size_t kBytes = 30'000;
    auto writes = [&]() -> Task<> {
      for (unsigned i = 0; i < kRounds; ++i) {
        pair.fill(0, in_send(kBytes), i);
        co_await pair.link(0).put(in_send(kBytes), in_ccl_in(kBytes), Signal::DataSignal);
        co_await pair.link(0).send(in_send(kBytes));
        co_await pair.link(0).wait(Signal::Ack);
      }
    };
    auto reads = [&]() -> Task<> {
      for (unsigned i = 0; i < kRounds; ++i) {
        co_await pair.link(1).recv(in_recv(kBytes));
        EXPECT_TRUE(pair.holds(1, in_ccl_in(kBytes), i)) << "the put comes before the send that followed it";
        EXPECT_TRUE(pair.holds(1, in_recv(kBytes), i));
        co_await pair.link(1).wait(Signal::DataSignal);
        co_await pair.link(1).post(Signal::Ack);
      }
    };
    co_await when_all(writes(), reads());
  };
  run(body);
}

std::size_t small_size(std::size_t message) { return message * 7 % 150; }
/// Not inlined: from the loop below g++ 12 -O3 stores a wrong size where the send does not suspend.
[[gnu::noinline]] Slice small_message(std::size_t message) { return in_send(small_size(message), message); }

TEST_P(LinkConformance, a_thousand_small_messages_keep_their_order) {
  auto body = [&](LinkPair& pair) -> Task<> {
    constexpr std::size_t kMessages = 1000;
    auto sends = [&]() -> Task<> {
      for (std::size_t i = 0; i < kMessages; ++i) co_await pair.link(0).send(small_message(i));
    };
    auto receives = [&]() -> Task<> {
      for (std::size_t i = 0; i < kMessages; ++i) {
        co_await pair.link(1).recv(in_recv(small_size(i)));
        EXPECT_EQ(std::memcmp(pair.at(1, in_recv(small_size(i))), pair.at(0, in_send(small_size(i), i)),
                              small_size(i)),
                  0)
            << i;
      }
    };
    pair.fill(0, in_send(kMessages + 150), 1);
    co_await when_all(sends(), receives());
  };
  run(body);
}

TEST_P(LinkConformance, both_directions_run_at_once) {
  auto body = [&](LinkPair& pair) -> Task<> {
    constexpr std::size_t kBytes = 16 * kMiB;
    for (const Rank rank : {0U, 1U}) pair.fill(rank, in_send(kBytes), rank + 1);
    co_await when_all(send(pair.link(0), in_send(kBytes)), send(pair.link(1), in_send(kBytes)),
                      recv(pair.link(0), in_recv(kBytes)), recv(pair.link(1), in_recv(kBytes)));
    EXPECT_TRUE(pair.holds(0, in_recv(kBytes), 2));
    EXPECT_TRUE(pair.holds(1, in_recv(kBytes), 1));
  };
  run(body);
}

TEST_P(LinkConformance, both_ends_get_at_once) {
  auto body = [&](LinkPair& pair) -> Task<> {
    constexpr std::size_t kBytes = 16 * kMiB;
    for (const Rank rank : {0U, 1U}) pair.fill(rank, in_ccl_in(kBytes), rank + 1);
    co_await when_all(get(pair.link(0), in_ccl_in(kBytes), in_recv(kBytes)),
                      get(pair.link(1), in_ccl_in(kBytes), in_recv(kBytes)));
    EXPECT_TRUE(pair.holds(0, in_recv(kBytes), 2));
    EXPECT_TRUE(pair.holds(1, in_recv(kBytes), 1));
  };
  run(body);
}

TEST_P(LinkConformance, cancelled_before_anything_came_leaves_the_link_whole) {
  auto body = [&](LinkPair& pair) -> Task<> {
    for (int i = 0; i < 2; ++i) {
      CancelScope scope;
      scope.set_deadline(engine, engine.now() + std::chrono::milliseconds(2));
      Task<> task = i == 0 ? recv(pair.link(1), in_recv(100)) : wait(pair.link(1), Signal::Ack);
      const auto error = co_await error_of(with_scope(scope, std::move(task)));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    }
    pair.fill(0, in_send(100), 6);
    co_await when_all(recv(pair.link(1), in_recv(100)), send(pair.link(0), in_send(100)));
    EXPECT_TRUE(pair.holds(1, in_recv(100), 6));
  };
  run(body);
}

TEST_P(LinkConformance, started_in_a_cancelled_scope_does_nothing) {
  auto body = [&](LinkPair& pair) -> Task<> {
    CancelScope scope;
    scope.cancel(Error(ErrorKind::Revoked, "too late"));
    const auto sending = co_await error_of(with_scope(scope, send(pair.link(0), in_send(8))));
    const auto receiving = co_await error_of(with_scope(scope, recv(pair.link(1), in_recv(8))));
    EXPECT_EQ(kind_of(sending), "Revoked");
    EXPECT_EQ(kind_of(receiving), "Revoked");
    co_await when_all(recv(pair.link(1), in_recv(16)), send(pair.link(0), in_send(16)));
  };
  run(body);
}

TEST_P(LinkConformance, pending_operations_end_when_they_are_cancelled_after_a_shutdown_or_before) {
  for (const bool shutdown_first : {true, false}) {
    auto body = [&](LinkPair& pair) -> Task<> {
      TaskScope tasks;
      std::size_t ended = 0;
      auto expect_end = [&](Task<> task) -> Task<> {
        const auto error = co_await error_of(std::move(task));
        EXPECT_EQ(kind_of(error), "PeerDied");
        ++ended;
      };
      auto may_be_over = [](Task<> task) -> Task<> {  // where the transport keeps all the bytes
        const auto error = co_await error_of(std::move(task));
        EXPECT_TRUE(!error || kind_of(error) == "PeerDied");
      };
      pair.fill(0, in_send(16 * kMiB), 1);
      tasks.spawn(expect_end(recv(pair.link(0), in_recv(16))));
      tasks.spawn(may_be_over(send(pair.link(0), in_send(16 * kMiB))));
      for (const Signal signal : {Signal::Ack, Signal::DataSignal, Signal::DataAck})
        tasks.spawn(expect_end(wait(pair.link(1), signal)));
      co_await engine.sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(ended, 0U);
      if (shutdown_first) {
        pair.shutdown(0);
        pair.shutdown(1);
        co_await engine.sleep_for(std::chrono::milliseconds(5));
      }
      tasks.cancel(Error(ErrorKind::PeerDied, "rank 1 is gone"));
      co_await tasks.join();
      EXPECT_EQ(ended, 4U);
    };
    run_troubled(body);
  }
}

TEST_P(LinkConformance, cancelled_in_the_middle_of_its_bytes_leaves_nothing_behind) {
  auto body = [&](LinkPair& pair) -> Task<> {
    TaskScope tasks;
    auto expect_end = [](Task<> task) -> Task<> {  // or it came in one go
      const auto error = co_await error_of(std::move(task));
      EXPECT_TRUE(!error || kind_of(error) == "Cancelled");
    };
    pair.fill(0, in_send(16 * kMiB), 1);
    pair.fill(1, in_ccl_in(16 * kMiB), 2);
    tasks.spawn(expect_end(send(pair.link(0), in_send(16 * kMiB))));
    tasks.spawn(expect_end(recv(pair.link(1), in_recv(16 * kMiB))));
    while (*pair.at(1, in_recv(1)) != *pair.at(0, in_send(1))) co_await engine.sleep_for(Duration::zero());
    tasks.cancel();
    co_await tasks.join();
    // The schedule's memory is the caller's again: nothing may write to it any more.
    std::memset(pair.at(1, in_recv(16 * kMiB)), 0x5a, 16 * kMiB);
    co_await engine.sleep_for(std::chrono::milliseconds(5));
    const std::byte* const recv_window = pair.at(1, in_recv(16 * kMiB));
    std::size_t written = 0;
    for (std::size_t i = 0; i < 16 * kMiB; ++i) written += recv_window[i] == std::byte{0x5a} ? 0 : 1;
    EXPECT_EQ(written, 0U);
  };
  run_troubled(body);
}

TEST_P(LinkConformance, closing_one_end_is_told_to_the_other_ends_host_once) {
  if (!GetParam().reports_closing) GTEST_SKIP() << "not on this transport";
  auto body = [&](LinkPair& pair) -> Task<> {
    CancelScope collective;
    pair.host(1).collective = &collective;
    pair.shutdown(0);
    const auto error = co_await error_of(with_scope(collective, recv(pair.link(1), in_recv(8))));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_EQ(error->culprit(), 0U);
    EXPECT_EQ(pair.host(1).failures.size(), 1U);
    EXPECT_TRUE(pair.host(0).failures.empty()) << "who closes knows";
    pair.host(1).collective = nullptr;
  };
  run_troubled(body);
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, LinkConformance,
    ::testing::Values(
        TransportCase{.name = "shm_processes", .kind = library_kind("shm"), .is_isolated = true},
        TransportCase{.name = "shm_threads", .kind = library_kind("shm"), .reaches_user_windows = true},
        TransportCase{.name = "tcp",
                      .kind = library_kind("tcp"),
                      .reaches_user_windows = true,
                      .reports_closing = true},
        TransportCase{.name = "queue", .kind = test::kQueueTransport, .reaches_user_windows = true}),
    ::testing::PrintToStringParamName());

}  // namespace
}  // namespace cohort::testing
