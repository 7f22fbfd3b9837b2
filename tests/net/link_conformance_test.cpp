// SPDX-License-Identifier: Apache-2.0
// What every transport's link must do, whatever moves the bytes.
#include <cohort/tests/net/link_conformance.h>

namespace cohort::test::link_conformance_test {
namespace {

constexpr std::size_t kSizes[] = {0,        1,       63, 64, 65, 4 * kKiB, 64 * kKiB - 64, 64 * kKiB + 1,
                                  kMiB + 3, 8 * kMiB};

TEST_P(LinkConformance, ranks_whose_memory_is_mapped_are_ranks_of_one_host) {
  auto role = [](LinkEnd& end) -> Task<> {
    PeerTransports& transports = end.transports();
    const bool is_mapped = transports.capabilities(end.peer()).maps_memory;
    EXPECT_EQ(transports.ranks_of_host().size(), is_mapped ? 2U : 1U);
    EXPECT_EQ(transports.group() != nullptr, is_mapped);
    EXPECT_EQ(transports.name(), end.link().transport());
    EXPECT_EQ(transports.name_for(end.peer()), transports.name());
    co_return;
  };
  run(role, role);
}

/// Rank 0 sends every size; what rank 1 does about it.
Task<> send_every_size(LinkEnd& end) {
  for (const std::size_t bytes : kSizes) {
    end.fill(in_send(bytes, 3), static_cast<unsigned>(bytes % 97));
    co_await end.link().send(in_send(bytes, 3));
    co_await end.meet();
  }
}

TEST_P(LinkConformance, send_meets_a_recv_that_waits_already) {
  auto sends = [](LinkEnd& end) -> Task<> {
    co_await end.settle();
    co_await send_every_size(end);
  };
  auto receives = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      co_await end.link().recv(in_recv(bytes, 5));
      EXPECT_TRUE(end.holds(in_recv(bytes, 5), static_cast<unsigned>(bytes % 97))) << bytes;
      co_await end.meet();
    }
  };
  run(sends, receives);
}

TEST_P(LinkConformance, recv_finds_what_was_sent_before) {
  auto receives = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      co_await end.settle();
      co_await end.link().recv(in_recv(bytes));
      EXPECT_TRUE(end.holds(in_recv(bytes), static_cast<unsigned>(bytes % 97))) << bytes;
      co_await end.meet();
    }
  };
  run(send_every_size, receives);
}

TEST_P(LinkConformance, recv_reduce_combines_whole_elements) {
  auto receives = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      end.fill(in_recv(bytes), 2);
      const Reducer reducer = adder_for(bytes);
      co_await end.link().recv_reduce(in_recv(bytes), reducer);
      EXPECT_TRUE(end.holds_sum(in_recv(bytes), static_cast<unsigned>(bytes % 97), 2)) << bytes;
      co_await end.meet();
    }
  };
  run(send_every_size, receives);
}

TEST_P(LinkConformance, recv_reduce_combines_whole_elements_behind_a_message_of_odd_size) {
  constexpr std::size_t kBytes = 300'000;
  auto sends = [](LinkEnd& end) -> Task<> {
    end.fill(in_send(kBytes), 1);
    co_await end.link().send(in_send(13));
    co_await end.link().send(in_send(kBytes));
  };
  auto receives = [](LinkEnd& end) -> Task<> {
    end.fill(in_recv(kBytes), 2);
    const Reducer reducer = adder(8);
    co_await end.settle();
    co_await end.link().recv(in_ccl_in(13));
    co_await end.link().recv_reduce(in_recv(kBytes), reducer);
    EXPECT_TRUE(end.holds_sum(in_recv(kBytes), 1, 2));
  };
  run(sends, receives);
}

/// Half of them before their receiver comes, and the others when it waits already.
TEST_P(LinkConformance, messages_that_are_under_way_together_come_in_the_order_of_their_start) {
  if (!GetParam().has_several_under_way) GTEST_SKIP() << "not on this transport";
  constexpr std::size_t kRounds = 3;
  constexpr std::size_t kPlace = 2 * kMiB;
  constexpr std::size_t kSome[] = {300'000, 0, 64 * kKiB, kMiB, 5, 64 * kKiB, 64 * kKiB + 1};
  auto sends = [&](LinkEnd& end) -> Task<> {
    for (std::size_t round = 0; round < kRounds; ++round) {
      if (round == 1) co_await end.settle();
      TaskScope all;
      for (std::size_t i = 0; i < std::size(kSome); ++i) {
        const Slice from = in_send(kSome[i], i * kPlace);
        end.fill(from, static_cast<unsigned>(round * 10 + i));
        all.spawn(i == 3 ? put(end.link(), from, in_ccl_in(from.bytes), Signal::DataSignal)
                         : send(end.link(), from));
      }
      co_await all.join();
      co_await end.meet();
    }
  };
  auto receives = [&](LinkEnd& end) -> Task<> {
    for (std::size_t round = 0; round < kRounds; ++round) {
      if (round != 1) co_await end.settle();
      TaskScope all;
      for (std::size_t i = 0; i < std::size(kSome); ++i)
        all.spawn(i == 3 ? wait(end.link(), Signal::DataSignal)
                         : recv(end.link(), in_recv(kSome[i], i * kPlace)));
      co_await all.join();
      for (std::size_t i = 0; i < std::size(kSome); ++i) {
        const Slice to = i == 3 ? in_ccl_in(kSome[i]) : in_recv(kSome[i], i * kPlace);
        EXPECT_TRUE(end.holds(to, static_cast<unsigned>(round * 10 + i))) << round << ", " << i;
      }
      co_await end.meet();
    }
  };
  run(sends, receives);
}

TEST_P(LinkConformance, put_writes_the_peers_window_before_its_signal) {
  auto puts = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      end.fill(in_send(bytes), 9);
      co_await end.link().put(in_send(bytes), in_ccl_in(bytes, 7), Signal::DataSignal);
      co_await end.meet();
    }
  };
  auto waits = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      co_await end.link().wait(Signal::DataSignal);
      EXPECT_TRUE(end.holds(in_ccl_in(bytes, 7), 9)) << bytes;
      end.fill(in_ccl_in(bytes, 7), 10);  // the next one must write all of it again
      co_await end.meet();
    }
  };
  run(puts, waits);
}

TEST_P(LinkConformance, get_reads_the_peers_window) {
  auto gets = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      co_await end.meet();
      co_await end.link().get(in_ccl_out(bytes, 64), in_recv(bytes, 1));
      EXPECT_TRUE(end.holds(in_recv(bytes, 1), static_cast<unsigned>(bytes % 97))) << bytes;
      co_await end.meet();
    }
  };
  auto offers = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      end.fill(in_ccl_out(bytes, 64), static_cast<unsigned>(bytes % 97));
      co_await end.meet();
      co_await end.meet();
    }
  };
  run(gets, offers);
}

/// Its reply may be over by what the peer says next, and not before.
TEST_P(LinkConformance, who_was_read_from_goes_on_as_soon_as_it_is_told) {
  constexpr int kTimes = 12;
  auto gets = [](LinkEnd& end) -> Task<> {
    co_await end.meet();
    for (int times = 0; times < kTimes; ++times) {
      co_await end.link().get(in_ccl_out(kMiB), in_recv(kMiB));
      EXPECT_TRUE(end.holds(in_recv(kMiB), 5)) << times;
      co_await end.link().post(Signal::DataSignal);
      co_await end.link().wait(Signal::Ack);
      end.begin_next();
    }
  };
  auto offers = [](LinkEnd& end) -> Task<> {
    end.fill(in_ccl_out(kMiB), 5);
    co_await end.meet();
    for (int times = 0; times < kTimes; ++times) {
      for (int turns = 0; turns < times; ++turns) co_await end.engine().sleep_for(Duration::zero());
      co_await end.link().wait(Signal::DataSignal);
      co_await end.link().post(Signal::Ack);
      end.begin_next();
    }
  };
  run(gets, offers);
}

TEST_P(LinkConformance, get_reduce_combines_the_peers_window_with_mine) {
  auto gets = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      co_await end.meet();
      end.fill(in_recv(bytes), 8);
      const Reducer reducer = adder_for(bytes);
      co_await end.link().get_reduce(in_ccl_in(bytes), in_recv(bytes), reducer);
      EXPECT_TRUE(end.holds_sum(in_recv(bytes), 3, 8)) << bytes;
      co_await end.meet();
    }
  };
  auto offers = [](LinkEnd& end) -> Task<> {
    for (const std::size_t bytes : kSizes) {
      end.fill(in_ccl_in(bytes), 3);
      co_await end.meet();
      co_await end.meet();
    }
  };
  run(gets, offers);
}

TEST_P(LinkConformance, put_and_get_reach_user_windows) {
  if (!GetParam().reaches_user_windows) GTEST_SKIP() << "not on this transport";
  auto reaches = [](LinkEnd& end) -> Task<> {
    end.fill(in_send(100'000), 1);
    co_await end.meet();
    co_await end.link().put(in_send(100'000), in_recv(100'000), Signal::Ack);
    co_await end.link().get(in_send(100'000), in_recv(100'000));
    EXPECT_TRUE(end.holds(in_recv(100'000), 2));
  };
  auto is_reached = [](LinkEnd& end) -> Task<> {
    end.fill(in_send(100'000), 2);
    co_await end.meet();
    co_await end.link().wait(Signal::Ack);
    EXPECT_TRUE(end.holds(in_recv(100'000), 1));
  };
  run(reaches, is_reached);
}

TEST_P(LinkConformance, effects_arrive_in_order) {
  constexpr std::size_t kRounds = 50;
  constexpr std::size_t kBytes = 30'000;
  auto writes = [](LinkEnd& end) -> Task<> {
    for (unsigned i = 0; i < kRounds; ++i) {
      end.fill(in_send(kBytes), i);
      co_await end.link().put(in_send(kBytes), in_ccl_in(kBytes), Signal::DataSignal);
      co_await end.link().send(in_send(kBytes));
      co_await end.link().wait(Signal::Ack);
    }
  };
  auto reads = [](LinkEnd& end) -> Task<> {
    for (unsigned i = 0; i < kRounds; ++i) {
      co_await end.link().recv(in_recv(kBytes));
      EXPECT_TRUE(end.holds(in_ccl_in(kBytes), i)) << "the put comes before the send that followed it";
      EXPECT_TRUE(end.holds(in_recv(kBytes), i));
      co_await end.link().wait(Signal::DataSignal);
      co_await end.link().post(Signal::Ack);
    }
  };
  run(writes, reads);
}

std::size_t small_size(std::size_t message) { return message * 7 % 150; }
/// Not inlined: from the loop below g++ 12 stores a wrong size with -ftree-slp-vectorize, which -O2 turns on
/// (cmake/coroutine_probe.cpp).
[[gnu::noinline]] Slice small_message(std::size_t message) { return in_send(small_size(message), message); }

TEST_P(LinkConformance, a_thousand_small_messages_keep_their_order) {
  constexpr std::size_t kMessages = 1000;
  auto sends = [](LinkEnd& end) -> Task<> {
    end.fill(in_send(kMessages + 150), 1);
    for (std::size_t i = 0; i < kMessages; ++i) co_await end.link().send(small_message(i));
  };
  auto receives = [](LinkEnd& end) -> Task<> {
    for (std::size_t i = 0; i < kMessages; ++i) {
      co_await end.link().recv(in_recv(small_size(i)));
      EXPECT_TRUE(end.holds(in_recv(small_size(i)), 1, i)) << i;
    }
  };
  run(sends, receives);
}

TEST_P(LinkConformance, both_directions_run_at_once) {
  constexpr std::size_t kBytes = 16 * kMiB;
  auto role = [](LinkEnd& end) -> Task<> {
    end.fill(in_send(kBytes), 1 - end.peer());
    co_await when_all(send(end.link(), in_send(kBytes)), recv(end.link(), in_recv(kBytes)));
    EXPECT_TRUE(end.holds(in_recv(kBytes), end.peer()));
  };
  run(role, role);
}

TEST_P(LinkConformance, both_ends_get_at_once) {
  constexpr std::size_t kBytes = 16 * kMiB;
  auto role = [](LinkEnd& end) -> Task<> {
    end.fill(in_ccl_in(kBytes), 1 - end.peer());
    co_await end.meet();
    co_await end.link().get(in_ccl_in(kBytes), in_recv(kBytes));
    EXPECT_TRUE(end.holds(in_recv(kBytes), end.peer()));
  };
  run(role, role);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, LinkConformance, ::testing::ValuesIn(transport_cases()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace cohort::test::link_conformance_test
