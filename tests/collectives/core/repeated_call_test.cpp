// SPDX-License-Identifier: Apache-2.0
// A small call that is made again is done from what was found out for the one before: on whatever memory and
// with whatever arguments, of which one alone may be another.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

namespace cohort::repeated_call_test {
namespace {

constexpr Rank kRanks = 3;
constexpr std::size_t kCount = 6;

/// Buffers that calls share, so that their addresses are those of the call before.
struct Memory {
  std::array<std::vector<std::int32_t>, 2> in = {std::vector<std::int32_t>(kRanks * kCount),
                                                 std::vector<std::int32_t>(kRanks* kCount)};
  std::array<std::vector<std::int32_t>, 2> out = in;
};

std::int32_t given(Rank rank, std::size_t index, int round) {
  return static_cast<std::int32_t>(100 * rank + 10 * index) + round;
}

/// Makes the call on what that round gives, and says what element `i` of the result must be.
using Trial = std::function<Task<>(Communicator&, Memory&, int round)>;

void fill(Communicator& comm, std::vector<std::int32_t>& in, int round) {
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = given(comm.rank(), i, round);
}

Trial sum_of(std::size_t in, std::size_t out, std::size_t count = kCount) {
  return [=](Communicator& comm, Memory& memory, int round) -> Task<> {
    fill(comm, memory.in[in], round);
    const std::span<std::int32_t> result = std::span(memory.out[out]).first(count);
    std::ranges::fill(memory.out[out], -1);
    co_await comm.all_reduce(std::span<const std::int32_t>(memory.in[in]).first(count), result,
                             ReduceOp::sum);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(result[i], given(0, i, round) + given(1, i, round) + given(2, i, round))
          << "sum, round " << round;
    EXPECT_EQ(memory.out[out][count], -1) << "behind it";
  };
}

Trial maximum() {
  return [](Communicator& comm, Memory& memory, int round) -> Task<> {
    fill(comm, memory.in[0], round);
    const std::span<std::int32_t> result = std::span(memory.out[0]).first(kCount);
    co_await comm.all_reduce(std::span<const std::int32_t>(memory.in[0]).first(kCount), result,
                             ReduceOp::max);
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_EQ(result[i], given(2, i, round)) << "max, round " << round;
  };
}

Trial broadcast_from(Rank root) {
  return [=](Communicator& comm, Memory& memory, int round) -> Task<> {
    fill(comm, memory.out[0], round);
    const std::span<std::int32_t> data = std::span(memory.out[0]).first(kCount);
    co_await comm.broadcast(data, root);
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_EQ(data[i], given(root, i, round)) << "broadcast, round " << round;
  };
}

Trial gather_of(std::vector<std::size_t> counts) {
  return [counts = std::move(counts)](Communicator& comm, Memory& memory, int round) -> Task<> {
    fill(comm, memory.in[0], round);
    const std::span<std::int32_t> result = std::span(memory.out[0]).first(kCount);
    co_await comm.all_gather_v(std::span<const std::int32_t>(memory.in[0]).first(counts[comm.rank()]), result,
                               counts);
    std::size_t at = 0;
    for (Rank rank = 0; rank < kRanks; ++rank)
      for (std::size_t i = 0; i < counts[rank]; ++i, ++at)
        EXPECT_EQ(result[at], given(rank, i, round)) << "all_gather_v, round " << round;
  };
}

/// The root takes its own block from where it lies.
Trial gather_from(std::size_t in) {
  return [=](Communicator& comm, Memory& memory, int round) -> Task<> {
    fill(comm, memory.in[in], round);
    const std::span<std::int32_t> result = std::span(memory.out[0]).first(kRanks);
    co_await comm.gather(std::span<const std::int32_t>(memory.in[in]).first(1), result, 1);
    if (comm.rank() != 1) co_return;
    for (Rank rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(result[rank], given(rank, 0, round)) << "gather, round " << round;
  };
}

/// Twice each, since calls use two slots in turn.
Task<> one_after_another(Communicator& comm, Memory& memory, const Trial& first, const Trial& second) {
  int round = 0;
  for (const Trial* trial : {&first, &first, &second, &second, &first, &first, &second, &first, &second})
    co_await (*trial)(comm, memory, ++round);
}

TEST(RepeatedCall, is_made_on_the_memory_and_with_the_arguments_that_it_has) {
  const Trial usual = sum_of(0, 0);
  const std::pair<Trial, Trial> pairs[] = {
      {usual, usual},
      {usual, sum_of(1, 0)},
      {usual, sum_of(0, 1)},
      {usual, sum_of(0, 0, kCount - 1)},
      {usual, maximum()},
      {broadcast_from(0), broadcast_from(1)},
      {gather_from(0), gather_from(1)},
      {gather_of({1, 2, 3}), gather_of({3, 2, 1})},
      {gather_of({2, 2, 2}), gather_of({3, 0, 3})},
  };
  const auto body = [&](Communicator& comm) -> Task<> {
    Memory memory;
    for (const auto& [first, second] : pairs) co_await one_after_another(comm, memory, first, second);
  };
  test::run_ranks(kRanks, body);
}

std::atomic<int> found = 0;

/// A broadcast.
void take_first(Exec& x, const Broadcast& op) {
  ++found;
  if (x.rank() != op.root) x.perform(x.copy_from(op.root, op.data, x.announced()[op.root].slice));
}

const Algorithm<Broadcast> kCounted = {
    .name = "counted", .scope = Scope::node, .local = {.announces = Announces::data, .combine = take_first}};

TEST(RepeatedCall, has_its_steps_found_once_for_each_slot) {
  CommunicatorOptions options;
  options.algorithms.push_back(kCounted);
  found = 0;
  const auto body = [](Communicator& comm) -> Task<> {
    std::vector<int> data(kCount);
    for (int round = 0; round < 10; ++round) {
      data.assign(kCount, comm.rank() == 0 ? round : -1);
      auto call = comm.broadcast(std::span(data), 0).with_algorithm("counted");
      co_await std::move(call);
      EXPECT_EQ(data.back(), round);
    }
  };
  test::run_ranks(kRanks, body, std::move(options));
  EXPECT_EQ(found, 2 * static_cast<int>(kRanks));
}

}  // namespace
}  // namespace cohort::repeated_call_test
