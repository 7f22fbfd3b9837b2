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

/// A rank that comes late changes the vector of one that is there already: only who reads the vector itself
/// sees it.
Task<> check_late_change(Communicator& comm, float*& early) {
  constexpr std::size_t kCount = 1024;  // 4 KiB: would be copied into the slot if it lay in private memory
  const Vector send(comm, kCount, true);
  const Vector recv(comm, kCount, true);
  std::ranges::fill(send.span(), 1.0F);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    early = send.span().data();
  } else {
    co_await comm.engine().sleep_for(std::chrono::milliseconds(50));  // it has announced its vector by then
    std::fill_n(early, kCount, 10.0F);
  }
  Collective call = comm.all_reduce(std::span<const float>(send.span()), recv.span(), ReduceOp::sum);
  co_await std::move(call);
  EXPECT_EQ(recv.span().front(), 11.0F);
  EXPECT_EQ(recv.span().back(), 11.0F);
}

TEST(ByReferenceAlone, vector_in_shared_memory_is_read_where_it_lies) {
  CommunicatorOptions options;
  options.is_isolated = true;
  float* early = nullptr;  // of a world's processes one runs at a time
  const auto body = [&early](Communicator& comm) -> Task<> {
    Engine::current().set_crowded(false);  // crowded ranks copy
    co_await check_late_change(comm, early);
  };
  test::run_ranks_in_world(2, body, std::move(options));
}

class ByReference : public testing::TestWithParam<Case> {};

TEST_P(ByReference, sums_are_right_whoever_shares_its_vector) {
  const auto [ranks, sharing, in_place] = GetParam();
  CommunicatorOptions options;
  options.is_isolated = true;
  const auto body = [sharing, in_place](Communicator& comm) -> Task<> {
    Engine::current().set_crowded(false);  // crowded ranks copy, since a phase costs them a switch
    for (const std::size_t count : {768UL, 1025UL, 4096UL, 8192UL, 20'000UL, 32'768UL})
      co_await check_sum(comm, count, sharing, in_place);
  };
  test::run_ranks(ranks, body, std::move(options));
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
