// SPDX-License-Identifier: Apache-2.0
// Real processes, one of which is killed or stopped: every survivor is told whom, and ends by itself.
#include <cohort/cohort.h>
#include <cohort/net/auth/identity.h>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <vector>

namespace cohort {
namespace {

constexpr Rank kRanks = 4;
constexpr int kSurvivedPeerDied = 40;  // + culprit
constexpr int kSurvivedDeadline = 50;  // + culprit
constexpr int kLeakedDescriptors = 60;
constexpr int kOtherError = 61;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// One of every collective, small and large, for ever. Writes a byte to `progress` after the first round.
Task<> work_for_ever(Communicator& comm, int progress) {
  std::vector<float> small(3, 1.0f);
  std::vector<float> large(200'000, 1.0f);
  std::vector<float> gathered(large.size() * comm.size());
  for (bool is_first = true;; is_first = false) {
    co_await comm.all_reduce(std::span<float>(small), ReduceOp::max);
    co_await comm.all_reduce(std::span<float>(large), ReduceOp::max);
    co_await comm.broadcast(std::span<float>(large), 1);
    co_await comm.all_gather(std::span<const float>(large), std::span<float>(gathered));
    co_await comm.reduce_scatter(std::span<const float>(gathered), std::span<float>(large), ReduceOp::max);
    co_await comm.reduce(std::span<float>(large), ReduceOp::max, 1);
    co_await comm.barrier();
    if (is_first && ::write(progress, "x", 1) != 1) throw Error(ErrorKind::Internal, "the test is gone");
  }
}

Task<> join_and_work(Engine& engine, CommunicatorOptions options, int progress) {
  Communicator comm = co_await Communicator::join(engine, std::move(options));
  std::exception_ptr failure;
  try {
    co_await work_for_ever(comm, progress);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await comm.close();
  std::rethrow_exception(failure);
}

/// How large private data goes from rank to rank: through CCL buffers, copied by the kernel, in frames;
/// between ranks 0 and 1 and ranks 2 and 3 the first, else the last.
enum class Way { shm_staged, shm_pulled, tcp, two_hosts };

/// What a rank's process does; its exit status says how it ended.
int live_and_die(Rank rank, Way way, const std::string& address, Duration timeout, int progress) {
  const std::size_t before = open_descriptors();
  int status = kOtherError;
  try {
    Engine engine;
    CommunicatorOptions options;
    options.join.rank = rank;
    options.join.size = kRanks;
    options.join.address = address;
    options.transport = way == Way::tcp ? "tcp" : way == Way::two_hosts ? "" : "shm";
    if (way == Way::two_hosts) options.join.host_id = rank < kRanks / 2 ? "one" : "other";
    options.pull_from_bytes = way == Way::shm_pulled ? 1 : kNeverPull;
    options.timeout = timeout;
    engine.run(join_and_work(engine, std::move(options), progress));
  } catch (const Error& error) {
    const int culprit = static_cast<int>(error.culprit().value_or(9));
    if (error.kind() == ErrorKind::PeerDied) status = kSurvivedPeerDied + culprit;
    if (error.kind() == ErrorKind::DeadlineExceeded) status = kSurvivedDeadline + culprit;
    if (status == kOtherError) fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  }
  return open_descriptors() == before ? status : kLeakedDescriptors;
}

class KilledRank : public testing::TestWithParam<std::tuple<Way, Rank>> {
 protected:
  [[nodiscard]] static Rank victim() { return std::get<1>(GetParam()); }

  /// Returns when all ranks work.
  void start(Duration timeout) {
    std::array<int, 2> progress{};
    ASSERT_EQ(::pipe(progress.data()), 0);
    const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(live_and_die(rank, std::get<0>(GetParam()), address, timeout, progress[1]));
      children_[rank] = child;
    }
    ::close(progress[1]);
    char byte = 0;
    Rank working = 0;
    while (working < kRanks && ::read(progress[0], &byte, 1) == 1) ++working;
    ::close(progress[0]);
    EXPECT_EQ(working, kRanks) << "some ended before they worked";
  }
  void signal_victim(int number) { ::kill(children_[victim()], number); }

  /// The status of a rank that ends by itself; the test's own time limit is for those that do not.
  int status_of(Rank rank) {
    int status = 0;
    EXPECT_EQ(::waitpid(children_[rank], &status, 0), children_[rank]);
    children_[rank] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void TearDown() override {
    for (const pid_t child : children_)
      if (child > 0) ::kill(child, SIGKILL);
  }

 private:
  std::array<pid_t, kRanks> children_{};
};

TEST_P(KilledRank, is_named_on_every_survivor_and_nothing_leaks) {
  start(std::chrono::minutes(1));
  signal_victim(SIGKILL);
  for (Rank rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(status_of(rank), rank == victim() ? -SIGKILL : kSurvivedPeerDied + static_cast<int>(victim()))
        << "rank " << rank;
}

TEST_P(KilledRank, that_is_only_stopped_is_named_at_the_deadline) {
  start(std::chrono::seconds(2));
  signal_victim(SIGSTOP);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank == victim()) continue;
    const int status = status_of(rank);
    EXPECT_TRUE(status >= kSurvivedDeadline && status < kSurvivedDeadline + 10)
        << "rank " << rank << ": " << status;
  }
  signal_victim(SIGKILL);
  EXPECT_EQ(status_of(victim()), -SIGKILL);
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Way, Rank>>& test) {
  const char* const names[] = {"shm_staged", "shm_pulled", "tcp", "two_hosts"};
  return fmt::format("{}_victim_{}", names[static_cast<int>(std::get<0>(test.param))],
                     std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, KilledRank,
                         testing::Combine(testing::Values(Way::shm_staged, Way::shm_pulled, Way::tcp,
                                                          Way::two_hosts),
                                          testing::Values(Rank{0}, Rank{1}, Rank{3})),
                         name_of_case);

TEST(SharedMemory, leaves_nothing_under_dev_shm) {
  std::size_t ours = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    ours += entry.path().filename().string().find("cohort") != std::string::npos ? 1U : 0U;
  EXPECT_EQ(ours, 0U);
}

}  // namespace
}  // namespace cohort
