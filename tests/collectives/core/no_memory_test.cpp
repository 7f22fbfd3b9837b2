// SPDX-License-Identifier: Apache-2.0
// A rank that has no memory for what comes says so, and lives.
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/forked_part.h>
#include <cohort/tests/support/no_memory.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <ostream>
#include <string>
#include <vector>

namespace cohort::no_memory_test {
namespace {

using ::cohort::test::kind_of;
using ::cohort::test::NoMemory;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = 4000;

/// Rank 1 waits for another message than the one that comes, and would have to keep that.
Task<> send_what_nobody_wants(Communicator& comm) {
  std::vector<std::byte> data(kBytes);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    co_await comm.send(data, 1, 1);
    co_await comm.recv(data, 1, 3);
  } else {
    const NoMemory no_memory(kBytes);
    co_await comm.recv(data, 0, 2);
  }
}

TEST(NoMemory, for_a_message_that_nobody_wants_yet_is_told_on_both_ranks) {
  for (const char* const transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks(2, send_what_nobody_wants, options);
    for (const test::Outcome& outcome : outcomes) {
      EXPECT_EQ(kind_of(outcome.error), "ResourceLimit") << transport;
      if (!outcome.error) continue;
      EXPECT_EQ(outcome.error->culprit(), Rank{1});
      EXPECT_THAT(outcome.error->what(), HasSubstr("has no memory for the messages that come"));
    }
  }
}

/// What rank 1 does not get: see NoMemory.
struct Shortage {
  std::size_t from_bytes = 0;
  std::size_t but_first = 0;
};

/// In which rank 1 fails, without memory or with it.
struct Trouble {
  const char* name;
  const char* kind;  ///< of rank 1's error, as long as it has memory
  Task<> (*play)(Communicator& comm, const Shortage& shortage);
};

void PrintTo(const Trouble& trouble, std::ostream* out) { *out << trouble.name; }

Task<> play_no_answer(Communicator& comm, const Shortage& shortage) {
  std::vector<float> values(1000, 1.0F);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    co_await comm.recv(values, 1, 1);
    co_return;
  }
  const NoMemory no_memory(shortage.from_bytes, shortage.but_first);
  co_await comm.all_reduce(values, ReduceOp::sum).with_deadline(std::chrono::milliseconds(20));
}

Task<> play_disagreement(Communicator& comm, const Shortage& shortage) {
  std::vector<float> values(comm.rank() == 0 ? 1000 : 900, 1.0F);
  co_await comm.barrier();
  std::optional<NoMemory> no_memory;
  if (comm.rank() == 1) no_memory.emplace(shortage.from_bytes, shortage.but_first);
  co_await comm.all_reduce(values, ReduceOp::sum);
}

Task<> play_departure(Communicator& comm, const Shortage& shortage) {
  std::vector<float> values(1000, 1.0F);
  co_await comm.barrier();
  if (comm.rank() == 0) co_return;
  const NoMemory no_memory(shortage.from_bytes, shortage.but_first);
  co_await comm.all_reduce(values, ReduceOp::sum);
}

Task<> play_other_sizes(Communicator& comm, const Shortage& shortage) {
  std::vector<std::byte> data(comm.rank() == 0 ? kBytes : kBytes / 2);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    co_await comm.send(data, 1, 1);
    co_await comm.recv(data, 1, 1);
    co_return;
  }
  const NoMemory no_memory(shortage.from_bytes, shortage.but_first);
  co_await comm.recv(data, 0, 1);
}

/// Which is waited for until the other rank has left.
Task<> play_other_tag(Communicator& comm, const Shortage& shortage) {
  std::vector<std::byte> data(kBytes);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    co_await comm.send(data, 1, 1);
    co_return;
  }
  const NoMemory no_memory(shortage.from_bytes, shortage.but_first);
  co_await comm.recv(data, 0, 2);
}

Task<> play_abort(Communicator& comm, const Shortage& shortage) {
  std::vector<float> values(1000, 1.0F);
  co_await comm.barrier();
  if (comm.rank() == 1) {
    const NoMemory no_memory(shortage.from_bytes, shortage.but_first);
    comm.abort("this rank has what it came for");
  }
  co_await comm.all_reduce(values, ReduceOp::sum);
}

class AnyAllocation : public ::testing::TestWithParam<Trouble> {};

/// Whatever is the first that there is no memory for: of what fails, and of what is to be told of that.
TEST_P(AnyAllocation, may_fail_and_the_rank_lives) {
  const Trouble& trouble = GetParam();
  const auto expect_told = [&trouble](const char* transport, const Shortage& shortage) {
    CommunicatorOptions options;
    options.transport = transport;
    const auto play = [&](Communicator& comm) { return trouble.play(comm, shortage); };
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks(2, play, options);
    const std::optional<Error>& error = outcomes[1].error;
    ASSERT_TRUE(error.has_value());
    const bool is_bare = error->message() == "std::bad_alloc";  // where the call was made
    EXPECT_THAT(is_bare ? "ResourceLimit" : kind_of(error), AnyOf("ResourceLimit", trouble.kind))
        << error->what();
  };
  for (const char* const transport : {"shm", "tcp"})
    for (const std::size_t from_bytes : {0, 40})
      for (std::size_t but_first = 0; but_first < 30; ++but_first) {
        const Shortage shortage{from_bytes, but_first};
        test::ForkedPart part(
            fmt::format("{}, from {} bytes but the first {}", transport, from_bytes, but_first),
            [&] { expect_told(transport, shortage); });
        part.join();
        if (HasFailure()) return;
      }
}

Task<> sum_in_pair(Communicator& comm, const Shortage* shortage) {
  const std::vector<Rank> ranks = {0, 1};
  std::string name = "pair";
  std::optional<NoMemory> no_memory;
  if (shortage != nullptr) no_memory.emplace(shortage->from_bytes, shortage->but_first);
  Communicator pair = co_await comm.group(ranks, std::move(name));
  no_memory.reset();
  std::array<int, 1> in{1};
  std::array<int, 1> out{77};
  co_await pair.all_reduce(in, out, ReduceOp::sum);
  EXPECT_EQ(out[0], 2) << "rank " << pair.rank() << " of " << pair.size();
}

/// Rank 0 may hear of a group that rank 1 gave up, and begins again, as often as that.
Task<> sum_in_pair_at_last(Communicator& comm, const Shortage& shortage) {
  constexpr int kMostAttempts = 50;
  co_await comm.barrier();
  for (int attempt = 1;; ++attempt) {
    const bool is_short = comm.rank() == 1 && attempt == 1;
    const Shortage* const its_shortage = is_short ? &shortage : nullptr;
    std::string failure;
    try {
      co_await sum_in_pair(comm, its_shortage);
      co_return;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (attempt == kMostAttempts) throw Error(ErrorKind::Internal, failure);
  }
}

/// Whatever comes of the attempts on either side, no sum is one of another attempt's memory.
TEST(NoMemory, for_a_group_never_makes_a_sum_wrong_that_is_tried_again) {
  for (const std::size_t from_bytes : {0, 40})
    for (std::size_t but_first = 0; but_first < 30; ++but_first) {
      const Shortage shortage{from_bytes, but_first};
      test::ForkedPart part(fmt::format("from {} bytes but the first {}", from_bytes, but_first), [&] {
        const auto play = [&](Communicator& comm) { return sum_in_pair_at_last(comm, shortage); };
        (void)test::outcomes_of_ranks(2, play, {});
      });
      part.join();
      if (HasFailure()) return;
    }
}

constexpr Trouble kTroubles[] = {
    {"no_answer", "DeadlineExceeded", play_no_answer}, {"disagreement", "Mismatch", play_disagreement},
    {"departure", "PeerAborted", play_departure},      {"other_sizes", "Mismatch", play_other_sizes},
    {"other_tag", "PeerAborted", play_other_tag},      {"abort", "PeerAborted", play_abort},
};

INSTANTIATE_TEST_SUITE_P(In, AnyAllocation, ::testing::ValuesIn(kTroubles),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace cohort::no_memory_test
