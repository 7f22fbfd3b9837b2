// SPDX-License-Identifier: Apache-2.0
// An all_gather into blocks that lie apart: in private memory, which is staged or pulled, and mapped.
#include <cohort/cohort.h>
#include <cohort/engine/tuning.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace cohort::blocks_test {
namespace {

using testing::HasSubstr;

constexpr Rank kRanks = 3;
constexpr float kUntouched = -1;

/// A block for each rank, the last one's first, with something between them.
class Apart {
 public:
  explicit Apart(std::size_t count) : count_(count), memory_(kRanks * (count + 7), kUntouched) {
    for (Rank rank = 0; rank < kRanks; ++rank)
      places_.push_back(reinterpret_cast<std::byte*>(block(rank).data()));
  }

  [[nodiscard]] std::span<float> block(Rank rank) {
    return std::span(memory_).subspan((kRanks - 1 - rank) * (count_ + 7) + 3, count_);
  }
  [[nodiscard]] std::span<std::byte* const> places() const { return places_; }

  void expect_those_of_all_ranks() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(is_all(block(rank), static_cast<float>(rank))) << "block " << rank << " of " << count_;
      std::fill(block(rank).begin(), block(rank).end(), kUntouched);
    }
    EXPECT_TRUE(is_all(memory_, kUntouched)) << "beside blocks of " << count_;
  }

 private:
  static bool is_all(std::span<const float> data, float value) {
    return std::all_of(data.begin(), data.end(), [&](float one) { return one == value; });
  }

  const std::size_t count_;
  std::vector<float> memory_;
  std::vector<std::byte*> places_;
};

CallArguments gather_of(std::span<const float> mine, const Apart& apart) {
  CallArguments arguments{.type = DataType::float32};
  arguments.in = std::as_bytes(mine);
  arguments.blocks = apart.places();
  return arguments;
}

Task<> gather_apart_by(Communicator& comm, std::vector<std::size_t> counts) {
  for (const std::size_t count : counts) {
    Apart apart(count);
    const std::vector<float> mine(count, static_cast<float>(comm.rank()));
    Apart others(count);
    // What serves a call again, in one of two slots, is not taken for one with other blocks.
    for (Apart* const blocks : {&apart, &apart, &others, &others, &apart}) {
      co_await comm.call(operator_of<AllGather>, gather_of(mine, *blocks));
      blocks->expect_those_of_all_ranks();
    }

    const std::span<float> own = apart.block(comm.rank());  // in place
    std::copy(mine.begin(), mine.end(), own.begin());
    co_await comm.call(operator_of<AllGather>, gather_of(own, apart));
    apart.expect_those_of_all_ranks();
  }
}

Task<> gather_apart(Communicator& comm) { return gather_apart_by(comm, {0, 1, 100, 4099, 300'001}); }
Task<> gather_small_apart(Communicator& comm) {
  return gather_apart_by(comm, {0, 1, 100, 4099, tuning::slots::kMostBytes / sizeof(float)});
}

/// Calls of every size by one algorithm.
CommunicatorOptions options_of(const char* algorithm) {
  CommunicatorOptions options;
  options.algorithm = algorithm;
  return options;
}

TEST(Blocks, are_written_where_they_lie) {
  for (const std::size_t pull_from : {std::size_t{1}, std::numeric_limits<std::size_t>::max()}) {
    CommunicatorOptions options = options_of("direct");
    options.transport = "shm";
    options.pull_from_bytes = pull_from;
    test::run_ranks_in_world(kRanks, gather_apart, options);
  }
  // Threads of one process map each other's memory.
  test::run_ranks(kRanks, gather_apart, options_of("direct"));
}

// What ranks measure as they go may turn a call from one of the two ways to the other after its blocks are
// given.
TEST(Blocks, small_ones_are_written_where_they_lie) {
  CommunicatorOptions options = options_of("slots");
  options.transport = "shm";
  test::run_ranks_in_world(kRanks, gather_small_apart, options);
  test::run_ranks(kRanks, gather_small_apart, options_of("slots"));
}

TEST(Blocks, whoever_asks_is_told_which_calls_take_them) {
  auto body = [](Communicator& comm) -> Task<> {
    const bool is_shared = comm.transport() == "shm";
    EXPECT_EQ(comm.takes_blocks_apart(operator_of<AllGather>, DataType::float32, kRanks << 20), is_shared);
    EXPECT_EQ(comm.takes_blocks_apart(operator_of<AllGather>, DataType::float32, kRanks * 4), is_shared);
    EXPECT_FALSE(comm.takes_blocks_apart(operator_of<ReduceScatter>, DataType::float32, kRanks << 20));
    co_await comm.barrier();
  };
  for (const char* transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    test::run_ranks_in_world(kRanks, body, options);
  }
}

TEST(Blocks, what_is_wrong_with_them_is_refused) {
  auto body = [](Communicator& comm) -> Task<> {
    Apart apart(100);
    const std::vector<float> mine(100, 1.0F);
    const CallArguments right = gather_of(mine, apart);
    const auto refused = [&](Operator op, const CallArguments& arguments,
                             const char* algorithm) -> std::string {
      try {
        (void)comm.call(op, arguments).with_algorithm(algorithm);
      } catch (const Error& error) {
        return std::string(error.message());
      }
      return "taken";
    };
    const Operator all_gather = operator_of<AllGather>;
    EXPECT_THAT(refused(all_gather, right, "ring"),
                HasSubstr("ring does not write to blocks that lie apart"));
    EXPECT_THAT(refused(operator_of<ReduceScatter>, right, "direct"), HasSubstr("give it one piece"));

    CallArguments wrong = right;
    wrong.blocks = right.blocks.first(2);
    EXPECT_THAT(refused(all_gather, wrong, "direct"), HasSubstr("over 3 ranks into 2 blocks; give 3"));
    std::vector<std::byte*> places(right.blocks.begin(), right.blocks.end());
    wrong.blocks = places;
    places[1] = nullptr;
    EXPECT_THAT(refused(all_gather, wrong, "direct"), HasSubstr("the output of 400 bytes is null"));
    places[1] = const_cast<std::byte*>(right.in.data()) + 4;
    EXPECT_THAT(refused(all_gather, wrong, "direct"), HasSubstr("overlap"));
    const Rank other = comm.rank() == 0 ? 1 : 0;
    wrong.in = std::as_bytes(apart.block(other));  // the place of somebody else's
    wrong.blocks = right.blocks;
    EXPECT_THAT(refused(all_gather, wrong, "direct"), HasSubstr("overlap"));
    co_await comm.barrier();
  };
  CommunicatorOptions options = options_of("direct");
  options.transport = "shm";
  test::run_ranks_in_world(kRanks, body, options);
}

}  // namespace
}  // namespace cohort::blocks_test
