// SPDX-License-Identifier: Apache-2.0
// How many coroutine frames stand between a user's co_await and an operation on a link.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

namespace cohort::frames_test {
namespace {

constexpr Rank kRanks = 2;
constexpr int kCalls = 50;
constexpr std::size_t kCount = 1000;

/// The frames that one call takes on a rank, all of them together. The fewest of several calls.
template <class Collect>
Task<> count_frames(Collect collect, std::uint64_t& frames) {
  frames = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < kCalls; ++i) {
    const std::uint64_t before = FramePool::statistics().requests;
    co_await collect();
    frames = std::min(frames, FramePool::statistics().requests - before);
  }
}

/// Frames of an all_reduce, and of a barrier whose schedule awaits its links itself, over TCP.
struct Frames {
  std::uint64_t barrier = 0;
  std::uint64_t all_reduce = 0;
};

Frames frames_with(std::string_view algorithm) {
  Frames frames;
  auto body = [&](Communicator& comm) -> Task<> {
    std::vector<float> data(kCount, 1.0F);
    const std::span<float> all(data);
    auto barrier = [&] { return comm.barrier().with_algorithm("ring"); };
    auto all_reduce = [&] { return comm.all_reduce(all, ReduceOp::max).with_algorithm(algorithm); };
    Frames mine;
    co_await count_frames(barrier, mine.barrier);
    co_await count_frames(all_reduce, mine.all_reduce);
    if (comm.rank() == 0) frames = mine;
  };
  CommunicatorOptions options;
  options.transport = "tcp";
  ::setenv("COHORT_SPIN_US", "1000000", 1);  // a link that sleeps takes frames of its own
  test::run_ranks(kRanks, body, std::move(options));
  return frames;
}

TEST(Frames, of_an_exchange_are_those_of_its_two_sub_streams) {
  const Frames frames = frames_with("ring");
  constexpr std::uint64_t kPhases = 2;  // a reduce_scatter and an all_gather, each a coroutine of its own
  const std::uint64_t exchanges = kPhases * (kRanks - 1);
#ifdef __clang__  // which makes some of them part of their callers'
  EXPECT_LE(frames.all_reduce, frames.barrier + kPhases + 2 * exchanges);
#else
  EXPECT_EQ(frames.all_reduce, frames.barrier + kPhases + 2 * exchanges);
#endif
}

TEST(Frames, of_a_forked_exchange_are_one_more_for_each_peer) {
  const Frames frames = frames_with("one_shot");
  EXPECT_EQ(frames.all_reduce, frames.barrier + (kRanks - 1) * (1 + 2));
}

TEST(Frames, of_a_message_over_tcp_are_few) {
  // The deepest way to a link: as far as the schedule, then the body for a peer, and the sending half.
  constexpr std::uint64_t kMost = 5;
  const std::uint64_t to_schedule = frames_with("ring").barrier;
  EXPECT_LE(to_schedule + 2, kMost);
}

}  // namespace
}  // namespace cohort::frames_test
