// SPDX-License-Identifier: Apache-2.0
// When a host is taken for lost, by what the kernel tells of a connection to it in each of its states.
#include <cohort/engine/io/host_watch.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string_view>

namespace cohort::host_watch_test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLongest = 10s;
constexpr std::uint32_t kRoom = 64512;

struct Case {
  std::string_view what;
  TcpState state;
  Duration silence;
};

void PrintTo(const Case& example, std::ostream* out) { *out << example.what; }

TcpState state(std::uint32_t unacknowledged, std::uint32_t unsent, std::uint32_t window, std::uint32_t probes,
               Duration since_answer, Duration retransmission = 204ms) {
  TcpState made;
  made.unacknowledged_segments = unacknowledged;
  made.unsent_bytes = unsent;
  made.window_bytes = window;
  made.probes = probes;
  made.since_answer = since_answer;
  made.retransmission = retransmission;
  return made;
}

class Silence : public testing::TestWithParam<Case> {};

TEST_P(Silence, is_what_is_due) { EXPECT_EQ(silence(GetParam().state), GetParam().silence); }

INSTANTIATE_TEST_SUITE_P(
    OfStates, Silence,
    testing::Values(
        Case{"all is acknowledged", state(0, 0, kRoom, 0, 60s), 0s},
        Case{"a keepalive probe is on its way", state(0, 0, kRoom, 1, 2s), 0s},
        Case{"keepalive probes go unanswered", state(0, 0, kRoom, 4, 9s), 9s},
        Case{"packets are lost on their way", state(1, 0, kRoom, 0, 11s, 6528ms), 11s},
        Case{"sent before the link went, and after it", state(1, 100, kRoom, 0, 11s, 3264ms), 11s},
        Case{"nothing leaves this host: no route", state(0, 100, kRoom, 5, 11s), 11s},
        Case{"it has no room, and said so not long ago", state(0, 33624, 0, 0, 2s), 0s},
        Case{"it has no room, and is asked every two minutes", state(0, 33624, 0, 0, 119s), 0s},
        Case{"it has no room, and one question is under way", state(0, 33624, 0, 1, 121s), 0s},
        Case{"it had no room, and does not answer any more", state(0, 33624, 0, 4, 11s), 11s},
        Case{"it has taken its room back, and answers every question", state(3, 700, 0, 0, 25s, 51s), 0s},
        Case{"it has taken its room back, and does not answer any more", state(3, 700, 0, 0, 11s, 2s), 11s}));

/// Looks at one state, in which nothing changes but the time, until the host is lost.
struct Watched {
  HostWatch watch;
  TimePoint now{};

  /// Of the time since the last answer.
  bool look(TcpState state) {
    now = after(now, kLongest / HostWatch::kLooks);
    return watch.look(state, now, kLongest);
  }
};

TEST(HostWatch, loses_a_host_that_does_not_answer_at_the_second_look_that_finds_it_over) {
  Watched watched;
  EXPECT_FALSE(watched.look(state(0, 100, kRoom, 5, 9900ms)));
  EXPECT_FALSE(watched.look(state(0, 100, kRoom, 5, 10900ms)));
  EXPECT_TRUE(watched.look(state(0, 100, kRoom, 5, 11900ms)));
}

TEST(HostWatch, takes_an_answer_between_two_looks_for_life) {
  Watched watched;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(watched.look(state(1, 0, kRoom, 0, 60s)));  // as after a pause of this host
    EXPECT_FALSE(watched.look(state(1, 0, kRoom, 0, 1ms)));
    TcpState taken = state(0, 0, kRoom, 0, 1s);
    taken.acknowledged_bytes = 100;
    EXPECT_FALSE(watched.look(taken));
  }
}

TEST(HostWatch, loses_a_host_from_which_words_come_but_to_which_none_go) {
  Watched watched;
  int looks = 0;
  while (!watched.look(state(0, 100, kRoom, 3, 500ms))) ASSERT_LT(++looks, 100);
  const Duration waited = looks * kLongest / HostWatch::kLooks;
  EXPECT_GE(waited, kLongest);
  EXPECT_LE(waited, kLongest + kLongest / 5);
}

TEST(HostWatch, waits_as_long_as_a_little_is_acknowledged_between_looks) {
  Watched watched;
  TcpState slow = state(9, 1 << 20, kRoom, 0, 900ms);
  for (int i = 0; i < 100; ++i) {
    slow.acknowledged_bytes += 1;
    EXPECT_FALSE(watched.look(slow));
  }
}

TEST(HostWatch, never_loses_a_host_that_says_that_it_has_no_room) {
  Watched watched;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(watched.look(state(0, 33624, 0, i % 3 == 0, (i % 120) * 1s)));
  EXPECT_FALSE(watched.watch.is_in_doubt());
}

TEST(HostWatch, never_loses_a_host_to_which_nothing_is_said) {
  Watched watched;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(watched.look(state(0, 0, kRoom, 0, i * 1s)));
  EXPECT_FALSE(watched.watch.is_in_doubt());
}

TEST(HostWatch, is_in_doubt_before_it_loses_a_host) {
  Watched silent;
  EXPECT_FALSE(silent.look(state(1, 0, kRoom, 0, 4900ms)));
  EXPECT_FALSE(silent.watch.is_in_doubt());
  EXPECT_FALSE(silent.look(state(1, 0, kRoom, 0, 5900ms)));
  EXPECT_TRUE(silent.watch.is_in_doubt());
  EXPECT_FALSE(silent.look(state(1, 0, kRoom, 0, 1ms)));
  EXPECT_FALSE(silent.watch.is_in_doubt());

  Watched idle;
  EXPECT_FALSE(idle.look(state(0, 0, kRoom, 1, 2500ms)));
  EXPECT_FALSE(idle.watch.is_in_doubt());
  EXPECT_FALSE(idle.look(state(0, 0, kRoom, 3, 6500ms)));
  EXPECT_TRUE(idle.watch.is_in_doubt());
}

}  // namespace
}  // namespace cohort::host_watch_test
