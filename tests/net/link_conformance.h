// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/link.h>
#include <cohort/net/link_host.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

/// What every transport's link must do, as tests over a factory of connected pairs. A transport's own test
/// includes this and instantiates LinkConformance with its LinkFactory.
namespace cohort::testing {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

/// A communicator as far as links see it, in one collective that never ends unless the test says so.
class FakeHost final : public LinkHost {
 public:
  FakeHost() {
    state.sequence = 1;
    state.is_running = true;
    state.signature = {.what = 7, .count = 11};
  }

  [[nodiscard]] const RunningOperation& running() const noexcept override { return state; }
  void link_failed(Rank peer, const Error& error) noexcept override {
    EXPECT_EQ(peer, expected_peer);
    failures.push_back(error);
    if (collective != nullptr) collective->cancel(error);
  }
  void mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept override {
    EXPECT_EQ(peer, expected_peer);
    mismatches.emplace_back(sequence, theirs);
    if (collective != nullptr) collective->cancel(Error(ErrorKind::Mismatch, "the ranks disagree"));
  }

  /// Gives the window memory of its own.
  void bind_own(WindowId window, std::size_t bytes) {
    auto& memory = memories_[static_cast<std::size_t>(window)];
    memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    state.windows.bind(window, memory.get(), bytes);
  }

  RunningOperation state;
  Rank expected_peer = 0;
  std::vector<Error> failures;
  std::vector<std::pair<std::uint64_t, Signature>> mismatches;
  /// Cancelled when a link fails, as a communicator does.
  CancelScope* collective = nullptr;

 private:
  std::array<std::unique_ptr<std::byte[]>, kWindows> memories_;
};

/// Two ranks, 0 and 1, and the link of each to the other, on one engine.
class LinkPair : Immovable {
 public:
  static constexpr std::size_t kWindowBytes = 16 * kMiB + 4 * kKiB;

  LinkPair() {
    hosts_[0].expected_peer = 1;
    hosts_[1].expected_peer = 0;
  }
  virtual ~LinkPair() = default;

  [[nodiscard]] virtual Link& link(Rank of) = 0;
  /// What has to run beside the links; over after shutdown().
  virtual Task<> serve() { co_return; }
  virtual void operation_started(Rank) {}
  virtual void shutdown(Rank of) = 0;

  [[nodiscard]] FakeHost& host(Rank of) noexcept { return hosts_[of]; }
  [[nodiscard]] std::byte* at(Rank of, const Slice& slice) { return hosts_[of].state.windows.at(slice); }

  /// Bytes that differ from slice to slice.
  void fill(Rank of, const Slice& slice, unsigned seed) {
    std::byte* const bytes = at(of, slice);
    for (std::size_t i = 0; i < slice.bytes; ++i) bytes[i] = pattern(i, seed);
  }
  [[nodiscard]] bool holds(Rank of, const Slice& slice, unsigned seed) {
    const std::byte* const bytes = at(of, slice);
    for (std::size_t i = 0; i < slice.bytes; ++i)
      if (bytes[i] != pattern(i, seed)) return false;
    return true;
  }
  /// The sum, byte by byte, of two fillings.
  [[nodiscard]] bool holds_sum(Rank of, const Slice& slice, unsigned one, unsigned other) {
    const std::byte* const bytes = at(of, slice);
    for (std::size_t i = 0; i < slice.bytes; ++i)
      if (bytes[i] != plus(pattern(i, one), pattern(i, other))) return false;
    return true;
  }

  [[nodiscard]] static std::byte plus(std::byte a, std::byte b) noexcept {
    return static_cast<std::byte>(std::to_integer<unsigned>(a) + std::to_integer<unsigned>(b));
  }

 private:
  [[nodiscard]] static std::byte pattern(std::size_t i, unsigned seed) noexcept {
    return static_cast<std::byte>((i * 31 + (i >> 12) + seed * 101) & 0xff);
  }

  std::array<FakeHost, 2> hosts_;
};

/// A transport under test, and what it promises beyond moving bytes.
struct LinkFactory {
  std::string name;
  std::function<Task<std::unique_ptr<LinkPair>>(Engine&)> make;
  /// put and get may name user windows of the peer.
  bool reaches_user_windows = false;
  /// Closing one end is told to the other end's host.
  bool reports_closing = false;

  friend std::ostream& operator<<(std::ostream& out, const LinkFactory& factory) {
    return out << factory.name;
  }
};

inline Slice in_send(std::size_t bytes, std::size_t at = 0) { return {WindowId::send, at, bytes}; }
inline Slice in_recv(std::size_t bytes, std::size_t at = 0) { return {WindowId::recv, at, bytes}; }
inline Slice in_ccl_in(std::size_t bytes, std::size_t at = 0) { return {WindowId::ccl_in, at, bytes}; }
inline Slice in_ccl_out(std::size_t bytes, std::size_t at = 0) { return {WindowId::ccl_out, at, bytes}; }

/// Adds bytes; says that its elements are as large as asked for, and checks that it is only given whole ones.
inline Reducer adder(std::uint8_t element_bytes) {
  constexpr auto fold = [](const Reducer& self, std::byte* inout, const std::byte* in,
                           std::size_t bytes) noexcept {
    EXPECT_EQ(bytes % self.element_bytes, 0U);
    for (std::size_t i = 0; i < bytes; ++i) inout[i] = LinkPair::plus(inout[i], in[i]);
  };
  return {.fold = fold, .element_bytes = element_bytes};
}
/// The largest element that these bytes are made of.
inline Reducer adder_for(std::size_t bytes) { return adder(bytes % 8 == 0 ? 8 : bytes % 5 == 0 ? 5 : 1); }

inline Task<> send(Link& link, Slice from) { co_await link.send(from); }
inline Task<> recv(Link& link, Slice to) { co_await link.recv(to); }
inline Task<> recv_reduce(Link& link, Slice to, Reducer reducer) { co_await link.recv_reduce(to, reducer); }
inline Task<> put(Link& link, Slice from, Slice to, Signal signal) { co_await link.put(from, to, signal); }
inline Task<> get(Link& link, Slice from, Slice to) { co_await link.get(from, to); }
inline Task<> get_reduce(Link& link, Slice from, Slice to, Reducer reducer) {
  co_await link.get_reduce(from, to, reducer);
}
inline Task<> post(Link& link, Signal signal) { co_await link.post(signal); }
inline Task<> wait(Link& link, Signal signal) { co_await link.wait(signal); }

inline constexpr std::size_t kSizes[] = {
    0, 1, 63, 64, 65, 4 * kKiB, 64 * kKiB - 64, 64 * kKiB + 1, kMiB + 3, 8 * kMiB};

class LinkConformance : public ::testing::TestWithParam<LinkFactory> {
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
      const std::unique_ptr<LinkPair> pair = co_await GetParam().make(engine);
      TaskScope services;
      services.spawn(pair->serve());
      const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), body(*pair)));
      EXPECT_FALSE(error) << error->what();
      pair->shutdown(0);
      pair->shutdown(1);
      co_await services.join();
    };
    engine.run(whole());
  }

  Engine engine;
};

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
    constexpr std::size_t kBytes = 300'000;  // 60'000 elements of 5
    pair.fill(0, in_send(kBytes), 1);
    pair.fill(1, in_recv(kBytes), 2);
    const Reducer reducer = adder(5);
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

TEST_P(LinkConformance, a_thousand_small_messages_keep_their_order) {
  auto body = [&](LinkPair& pair) -> Task<> {
    constexpr std::size_t kMessages = 1000;
    auto size = [](std::size_t i) { return i * 7 % 150; };
    auto sends = [&]() -> Task<> {
      for (std::size_t i = 0; i < kMessages; ++i) co_await pair.link(0).send(in_send(size(i), i));
    };
    auto receives = [&]() -> Task<> {
      for (std::size_t i = 0; i < kMessages; ++i) {
        co_await pair.link(1).recv(in_recv(size(i)));
        EXPECT_EQ(std::memcmp(pair.at(1, in_recv(size(i))), pair.at(0, in_send(size(i), i)), size(i)), 0)
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
      pair.fill(0, in_send(16 * kMiB), 1);
      tasks.spawn(expect_end(recv(pair.link(0), in_recv(16))));
      tasks.spawn(expect_end(send(pair.link(0), in_send(16 * kMiB))));
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
      EXPECT_EQ(ended, 5U);
    };
    run_troubled(body);
  }
}

TEST_P(LinkConformance, cancelled_in_the_middle_of_its_bytes_leaves_nothing_behind) {
  auto body = [&](LinkPair& pair) -> Task<> {
    TaskScope tasks;
    auto expect_end = [](Task<> task) -> Task<> {
      const auto error = co_await error_of(std::move(task));
      EXPECT_EQ(kind_of(error), "Cancelled");
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

}  // namespace cohort::testing
