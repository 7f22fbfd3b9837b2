// SPDX-License-Identifier: Apache-2.0
// A rank is killed amid a message between buffers that both ends map, and copy: the other one names it.
#include <cohort/cohort.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace cohort::killed_amid_message_test {
namespace {

constexpr int kSurvivedPeerDied = 40;  // + culprit
constexpr int kOtherError = 61;

/// Rank 0 sends, and rank 1 sends what it has received back.
Task<> send_for_ever(Communicator& comm, int progress) {
  SharedBuffer<float> shared = comm.allocate<float>(std::size_t{16} << 20);
  const std::span<float> data = shared;
  const Rank peer = 1 - comm.rank();
  for (bool is_first = true;; is_first = false) {
    if (comm.rank() == 0) co_await comm.send(data, peer);
    co_await comm.recv(data, peer);
    if (comm.rank() == 1) co_await comm.send(data, peer);
    if (is_first && ::write(progress, "x", 1) != 1) throw Error(ErrorKind::Internal, "the test is gone");
  }
}

int live(Rank rank, const std::string& address, int progress) {
  try {
    Engine engine;
    CommunicatorOptions options;
    options.join.rank = rank;
    options.join.size = 2;
    options.join.address = address;
    options.transport = "shm";
    options.timeout = std::chrono::minutes(1);
    const RankFunction send = [progress](Communicator& comm) { return send_for_ever(comm, progress); };
    engine.run(run_rank(engine, std::move(options), send));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::PeerDied)
      return kSurvivedPeerDied + static_cast<int>(error.culprit().value_or(9));
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  }
  return kOtherError;
}

TEST(KilledAmidMessage, a_rank_is_named_by_the_other_whichever_it_was) {
  for (int round = 0; round < 10; ++round) {
    const Rank victim = static_cast<Rank>(round % 2);
    test::MortalRanks ranks;
    const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
    ASSERT_EQ(ranks.start(2, [&](Rank rank, int progress) { return live(rank, address, progress); }), 2U);
    const auto us = static_cast<useconds_t>(random_incarnation() % 20'000);
    ::usleep(us);
    ranks.signal(victim, SIGKILL);
    EXPECT_EQ(ranks.status_of(1 - victim), kSurvivedPeerDied + static_cast<int>(victim))
        << "killed after " << us << " us";
    EXPECT_EQ(ranks.status_of(victim), -SIGKILL);
  }
}

}  // namespace
}  // namespace cohort::killed_amid_message_test
