// SPDX-License-Identifier: Apache-2.0
// Small vectors in memory that peers map are combined where they lie, whoever else keeps its own private.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <vector>

namespace cohort {
namespace {

/// Which ranks' vectors lie in shared memory.
enum class Sharing { all, odd, none };

using Case = std::tuple<Rank, Sharing, bool>;

bool shares(Sharing sharing, Rank rank) {
  return sharing == Sharing::all || (sharing == Sharing::odd && rank % 2 == 1);
}

/// A vector of floats in shared or private memory.
class Vector {
 public:
  Vector(Communicator& comm, std::size_t count, bool is_shared)
      : private_(is_shared ? 0 : count), span_(private_) {
    if (!is_shared) return;
    shared_ = comm.allocate<float>(count);
    span_ = shared_.span();
  }
  [[nodiscard]] std::span<float> span() const { return span_; }

 private:
  std::vector<float> private_;
  SharedBuffer<float> shared_;
  std::span<float> span_;
};

float input(Rank rank, std::size_t index, int round) {
  return static_cast<float>((rank + 1) * (index % 11)) + static_cast<float>(round);
}

Task<> check_sum(Communicator& comm, std::size_t count, Sharing sharing, bool in_place) {
  const bool is_shared = shares(sharing, comm.rank());
  const Vector send(comm, count, is_shared);
  const Vector apart(comm, in_place ? 0 : count, is_shared);
  const std::span<float> recv = in_place ? send.span() : apart.span();
  for (int round = 0; round < 20; ++round) {  // the next one's input must not reach the last one's result
    for (std::size_t i = 0; i < count; ++i) send.span()[i] = input(comm.rank(), i, round);
    Collective call = comm.all_reduce(std::span<const float>(send.span()), recv, ReduceOp::sum);
    co_await std::move(call);
    for (std::size_t i = 0; i < count; ++i) {
      float expected = 0;
      for (Rank rank = 0; rank < comm.size(); ++rank) expected += input(rank, i, round);
      if (recv[i] == expected) continue;
      ADD_FAILURE() << "rank " << comm.rank() << ", " << count << " elements, round " << round << ": at " << i
                    << " got " << recv[i] << ", expected " << expected;
      co_return;
    }
  }
}

constexpr std::size_t kLateCount = 4096;  // 16 KiB: would be copied into the slot if it lay in private memory

/// An operator in which rank 0 gives something to rank 1, which gets these of it where it lies.
struct LateCase {
  Operator op;
  Rank root;
  float expected;
};

/// A rank that comes late changes what one gives that is there already: only who reads it where it lies sees
/// it.
Task<> check_late_change(Communicator& comm, const LateCase& of, float*& early) {
  const Form unit{.count = kLateCount, .ranks = comm.size(), .root = of.root};
  const Extent extent = of.op->extent(unit, comm.rank());
  const Vector send(comm, 2 * kLateCount, true);
  const Vector apart(comm, 2 * kLateCount, true);
  const std::span<float> recv = (of.op->has_one_buffer ? send : apart).span();
  std::ranges::fill(send.span(), 1.0F);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    early = send.span().data();
  } else {
    co_await comm.engine().sleep_for(std::chrono::milliseconds(50));  // it has announced its input by then
    std::fill_n(early, 2 * kLateCount, 10.0F);
  }
  const CallArguments arguments{.root = of.root,
                                .in = std::as_bytes(send.span().first(extent.send)),
                                .out = std::as_writable_bytes(recv.first(extent.recv))};
  Collective call = comm.call(of.op, arguments).with_algorithm("slots");
  co_await std::move(call);
  if (comm.rank() == 0) co_return;
  EXPECT_EQ(recv.front(), of.expected) << to_string(of.op);
  EXPECT_EQ(recv[kLateCount - 1], of.expected) << to_string(of.op);
}

TEST(ByReferenceAlone, input_in_shared_memory_is_read_where_it_lies) {
  const LateCase cases[] = {{operator_of<AllReduce>, 0, 11.0F},     {operator_of<AllGather>, 0, 10.0F},
                            {operator_of<ReduceScatter>, 0, 11.0F}, {operator_of<AllToAll>, 0, 10.0F},
                            {operator_of<Broadcast>, 0, 10.0F},     {operator_of<Reduce>, 1, 11.0F},
                            {operator_of<Gather>, 1, 10.0F},        {operator_of<Scatter>, 0, 10.0F},
                            {operator_of<Scan>, 0, 11.0F},          {operator_of<ExclusiveScan>, 0, 10.0F}};
  for (const LateCase& one : cases) {
    CommunicatorOptions options;
    options.is_isolated = true;
    float* early = nullptr;  // of a world's processes one runs at a time
    const auto body = [&early, &one](Communicator& comm) { return check_late_change(comm, one, early); };
    test::run_ranks_with_cores(2, body, std::move(options));
  }
}

class ByReference : public testing::TestWithParam<Case> {};

TEST_P(ByReference, sums_are_right_whoever_shares_its_vector) {
  const auto [ranks, sharing, in_place] = GetParam();
  CommunicatorOptions options;
  options.is_isolated = true;
  const auto body = [sharing, in_place](Communicator& comm) -> Task<> {
    for (const std::size_t count : {768UL, 1025UL, 4096UL, 8192UL, 20'000UL, 32'768UL})
      co_await check_sum(comm, count, sharing, in_place);
  };
  if (ranks == 2)  // as threads, which have a core each nearly everywhere
    test::run_ranks(ranks, body, std::move(options));
  else
    test::run_ranks_with_cores(ranks, body, std::move(options));
}

std::string name_of(const testing::TestParamInfo<Case>& test) {
  const auto [ranks, sharing, in_place] = test.param;
  const char* const names[] = {"all_share", "odd_share", "none_shares"};
  return fmt::format("{}_ranks_{}{}", ranks, names[static_cast<std::size_t>(sharing)],
                     in_place ? "_in_place" : "");
}

INSTANTIATE_TEST_SUITE_P(, ByReference,
                         testing::Combine(testing::Values(2U, 3U, 5U),
                                          testing::Values(Sharing::all, Sharing::odd, Sharing::none),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace cohort
