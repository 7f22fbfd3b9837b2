// SPDX-License-Identifier: Apache-2.0
// Real processes, one of which is killed or stopped: every survivor is told whom, and ends by itself.
#include <cohort/cohort.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <ostream>
#include <vector>

namespace cohort::killed_rank_test {
namespace {

constexpr Rank kRanks = 4;
constexpr int kSurvivedPeerDied = 40;  // + culprit
constexpr int kSurvivedDeadline = 50;  // + culprit
constexpr int kLeakedDescriptors = 60;
constexpr int kOtherError = 61;

/// How a rank's process is tied to the test.
struct Ties {
  int progress = -1;  ///< takes a byte when the rank works
  int leash = -1;     ///< set: the rank forks a child then, which ends when this does
  bool maps_buffers = false;
};

/// A child with all that it inherits, which outlives its parent.
void leave_child_behind(int leash) {
  if (::fork() != 0) return;
  char nothing = 0;
  while (::read(leash, &nothing, 1) > 0) {
  }
  ::_exit(0);
}

/// One of every collective, small and large, and messages around all ranks, for ever.
Task<> work_for_ever(Communicator& comm, std::span<float> large, std::span<float> gathered, Ties ties) {
  std::vector<float> small(3, 1.0f);
  for (bool is_first = true;; is_first = false) {
    co_await comm.all_reduce(std::span<float>(small), ReduceOp::max);
    co_await comm.all_reduce(large, ReduceOp::max);
    co_await comm.broadcast(large, 1);
    co_await comm.all_gather(std::span<const float>(large), gathered);
    co_await comm.reduce_scatter(std::span<const float>(gathered), large, ReduceOp::max);
    co_await comm.reduce(large, ReduceOp::max, 1);
    co_await comm.gather(std::span<const float>(large), gathered, 1);
    co_await comm.scatter(std::span<const float>(gathered), large, 1);
    co_await comm.all_to_all(std::span<const float>(large), gathered.first(large.size()));
    co_await comm.scan(large, ReduceOp::max);
    co_await comm.send(std::span<const float>(small), (comm.rank() + 1) % comm.size());
    co_await comm.recv(std::span<float>(small), (comm.rank() + comm.size() - 1) % comm.size());
    co_await comm.barrier();
    if (is_first && ties.leash >= 0) leave_child_behind(ties.leash);
    if (is_first && ::write(ties.progress, "x", 1) != 1) throw Error(ErrorKind::Internal, "the test is gone");
  }
}

/// On buffers of its own, or on ones that all ranks map, of 16 MiB, or 2 where a sanitizer watches each
/// access: they are amid those when one is killed.
Task<> work_on_buffers(Communicator& comm, Ties ties) {
  if (ties.maps_buffers) {
    constexpr bool kIsSlow = sanitizers::kAddress || sanitizers::kThread;
    constexpr std::size_t kLarge = std::size_t{4} << (kIsSlow ? 17 : 20);
    SharedBuffer<float> large = comm.allocate<float>(kLarge);
    SharedBuffer<float> gathered = comm.allocate<float>(kLarge * comm.size());
    co_await work_for_ever(comm, large, gathered, ties);
  }
  std::vector<float> large(200'000, 1.0f);
  std::vector<float> gathered(large.size() * comm.size());
  co_await work_for_ever(comm, large, gathered, ties);
}

/// How large private data goes from rank to rank: through CCL buffers, copied by the kernel, in frames;
/// between ranks 0 and 1 and ranks 2 and 3 the first, else the last; as if each had a host of its own.
/// Mapped: not private.
enum class Way { shm_staged, shm_pulled, shm_mapped, tcp, two_hosts, own_hosts };
constexpr const char* kWays[] = {"shm_staged", "shm_pulled", "shm_mapped", "tcp", "two_hosts", "own_hosts"};

void PrintTo(Way way, std::ostream* out) { *out << kWays[static_cast<int>(way)]; }

/// What a rank's process does; its exit status says how it ended.
int live_and_die(Rank rank, Way way, const std::string& address, Duration timeout, Ties ties) {
  const std::size_t before = test::open_descriptors();
  int status = kOtherError;
  try {
    Engine engine;
    CommunicatorOptions options;
    options.join.rank = rank;
    options.join.size = kRanks;
    options.join.address = address;
    const bool is_one_host = way != Way::two_hosts && way != Way::own_hosts;
    options.transport = way == Way::tcp ? "tcp" : is_one_host ? "shm" : "";
    if (way == Way::own_hosts) options.join.host_id = std::to_string(rank);
    if (way == Way::two_hosts) options.join.host_id = rank < kRanks / 2 ? "one" : "other";
    options.pull_from_bytes = way == Way::shm_pulled ? 1 : kNeverPull;
    options.timeout = timeout;
    const RankFunction work = [ties](Communicator& comm) { return work_on_buffers(comm, ties); };
    engine.run(run_rank(engine, std::move(options), work));
  } catch (const Error& error) {
    const int culprit = static_cast<int>(error.culprit().value_or(9));
    if (error.kind() == ErrorKind::PeerDied) status = kSurvivedPeerDied + culprit;
    if (error.kind() == ErrorKind::DeadlineExceeded) status = kSurvivedDeadline + culprit;
    if (status == kOtherError) fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  }
  return test::open_descriptors() == before ? status : kLeakedDescriptors;
}

class KilledRank : public testing::TestWithParam<std::tuple<Way, Rank>> {
 protected:
  [[nodiscard]] static Rank victim() { return std::get<1>(GetParam()); }

  /// Returns when all ranks work.
  void start(Duration timeout, bool victim_has_child = false) {
    std::array<int, 2> leash{};
    ASSERT_EQ(::pipe(leash.data()), 0);
    const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
    const auto live = [&](Rank rank, int progress) {
      ::close(leash[1]);
      const bool has_child = victim_has_child && rank == victim();
      const Way way = std::get<0>(GetParam());
      const Ties ties{
          .progress = progress, .leash = has_child ? leash[0] : -1, .maps_buffers = way == Way::shm_mapped};
      return live_and_die(rank, way, address, timeout, ties);
    };
    EXPECT_EQ(ranks_.start(kRanks, live), kRanks) << "some ended before they worked";
    ::close(leash[0]);
    leash_ = leash[1];
  }
  void signal_victim(int number) { ranks_.signal(victim(), number); }
  /// At any moment of what goes on.
  void kill_victim() {
    ::usleep(static_cast<useconds_t>(random_incarnation() % 20'000));
    signal_victim(SIGKILL);
  }
  int status_of(Rank rank) { return ranks_.status_of(rank); }
  void expect_all_name_it() {
    MonotonicClock clock;
    const TimePoint killed = clock.now();
    for (Rank rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(status_of(rank), rank == victim() ? -SIGKILL : kSurvivedPeerDied + static_cast<int>(victim()))
          << "rank " << rank;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock.now() - killed);
    RecordProperty("ms_until_all_have_ended", static_cast<int>(took.count()));
  }
  void TearDown() override { ::close(leash_); }

 private:
  test::MortalRanks ranks_;
  int leash_ = -1;
};

TEST_P(KilledRank, is_named_on_every_survivor_and_nothing_leaks) {
  start(std::chrono::minutes(1));
  kill_victim();
  expect_all_name_it();
}

TEST_P(KilledRank, that_leaves_a_forked_child_behind_is_named_all_the_same) {
  start(std::chrono::minutes(1), true);
  kill_victim();
  expect_all_name_it();
}

class StoppedRank : public KilledRank {};

/// Time enough for any call in which nobody is stopped, however slow the machine is.
TEST_P(StoppedRank, is_named_at_the_deadline) {
  start(std::chrono::seconds(10));
  signal_victim(SIGSTOP);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank == victim()) continue;
    EXPECT_EQ(status_of(rank), kSurvivedDeadline + static_cast<int>(victim())) << "rank " << rank;
  }
  signal_victim(SIGKILL);
  EXPECT_EQ(status_of(victim()), -SIGKILL);
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Way, Rank>>& test) {
  return fmt::format("{}_victim_{}", kWays[static_cast<int>(std::get<0>(test.param))],
                     std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, KilledRank,
                         testing::Combine(testing::Values(Way::shm_staged, Way::shm_pulled, Way::shm_mapped,
                                                          Way::tcp, Way::two_hosts, Way::own_hosts),
                                          testing::Values(Rank{0}, Rank{1}, Rank{3})),
                         name_of_case);

/// Each waits for its deadline, so each way has another victim.
INSTANTIATE_TEST_SUITE_P(Everywhere, StoppedRank,
                         testing::Values(std::tuple(Way::shm_staged, Rank{0}),
                                         std::tuple(Way::shm_pulled, Rank{3}),
                                         std::tuple(Way::shm_mapped, Rank{1}), std::tuple(Way::tcp, Rank{0}),
                                         std::tuple(Way::two_hosts, Rank{3}),
                                         std::tuple(Way::own_hosts, Rank{1})),
                         name_of_case);

TEST(SharedMemory, leaves_nothing_under_dev_shm) {
  std::size_t ours = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    ours += entry.path().filename().string().find("cohort") != std::string::npos ? 1U : 0U;
  EXPECT_EQ(ours, 0U);
}

}  // namespace
}  // namespace cohort::killed_rank_test
