// SPDX-License-Identifier: Apache-2.0
// A rank whose call fails has its memory back and uses it for something else. Others that read it then are
// told of the failure, and never return what they have read; who was through before is told nothing. Ranks
// are processes, held up where it would show.
#include <cohort/cohort.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

// What a rank's process ends with.
constexpr int kWasThrough = 40;  ///< its call was over, and the next one failed
constexpr int kGaveUp = 41;
constexpr int kWasTold = 42;  ///< by the error of its call, that rank 0 gave up
constexpr int kReturnedIt = 50;
constexpr int kOtherError = 61;
constexpr int kNoWord = 62;
constexpr int kCrashed = 63;

/// From one process to another one.
class Word {
 public:
  Word() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Word() {
    for (const int end : ends_) ::close(end);
  }
  Word(const Word&) = delete;
  Word& operator=(const Word&) = delete;

  void tell() const noexcept { (void)!::write(ends_[1], "x", 1); }
  [[nodiscard]] bool has_come(int within_ms = 0) const noexcept {
    pollfd entry{.fd = ends_[0], .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, within_ms) == 1;
  }
  /// Nothing else happens in this process. Ends it if the other one does not tell.
  void wait() const noexcept {
    if (!has_come(60'000)) ::_exit(kNoWord);
  }

 private:
  std::array<int, 2> ends_{};
};

struct Words {
  Word is_held;
  Word goes_on;
  Word is_given_back;
  Word is_over;
};

/// Where this process is held up, once, until it is told to go on.
struct {
  const Words* words = nullptr;
  std::byte* page = nullptr;    ///< at the first access to it
  bool is_before_copy = false;  ///< before the kernel copies from or to another process
} hold;

void hold_up() noexcept {
  hold.words->is_held.tell();
  hold.words->goes_on.wait();
}

void hold_up_at_page(int, siginfo_t* info, void*) {
  const auto* const at = static_cast<std::byte*>(info->si_addr);
  if (at < hold.page || at >= hold.page + cohort::memory_map::kPageBytes) ::_exit(kCrashed);
  ::mprotect(hold.page, cohort::memory_map::kPageBytes, PROT_READ | PROT_WRITE);
  hold_up();
}

void expect_to_be_held_at(float* element, const Words& words) {
  struct sigaction action {};
  action.sa_sigaction = hold_up_at_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
  const auto at = reinterpret_cast<std::uintptr_t>(element);
  hold.words = &words;
  hold.page = reinterpret_cast<std::byte*>(at - at % cohort::memory_map::kPageBytes);
  if (::mprotect(hold.page, cohort::memory_map::kPageBytes, PROT_NONE) != 0) ::_exit(kCrashed);
}

void expect_to_be_held_before_copy(const Words& words) {
  hold.words = &words;
  hold.is_before_copy = true;
}

}  // namespace

// In place of the system's.

extern "C" ssize_t process_vm_readv(pid_t process, const iovec* local, unsigned long local_count,
                                    const iovec* remote, unsigned long remote_count,
                                    unsigned long flags) noexcept {
  if (std::exchange(hold.is_before_copy, false)) hold_up();
  return ::syscall(SYS_process_vm_readv, process, local, local_count, remote, remote_count, flags);
}

extern "C" ssize_t process_vm_writev(pid_t process, const iovec* local, unsigned long local_count,
                                     const iovec* remote, unsigned long remote_count,
                                     unsigned long flags) noexcept {
  if (std::exchange(hold.is_before_copy, false)) hold_up();
  return ::syscall(SYS_process_vm_writev, process, local, local_count, remote, remote_count, flags);
}

namespace cohort {
namespace {

using namespace std::chrono_literals;
using testing::error_of;

constexpr float kGiven = 1;
constexpr float kReused = 666;

/// What is done with memory of that kind, of `count` elements for each rank.
struct Work {
  using Calls = Task<> (*)(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out);
  std::string name;
  Calls calls;
  std::string algorithm;
  std::size_t count;
  bool is_shared = true;
  bool is_by_kernel = false;  ///< where memory is private
  Rank hosts = 1;
};

Collective by_algorithm(Collective call, const std::string& algorithm) {
  return algorithm.empty() ? std::move(call) : std::move(call).with_algorithm(algorithm);
}

Task<> reduce_scatter(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<const float> all = in.first(comm.size() * work.count);
  co_await by_algorithm(comm.reduce_scatter(all, out.first(work.count), ReduceOp::sum), work.algorithm);
}

Task<> all_gather(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<const float> own = in.first(work.count);
  co_await by_algorithm(comm.all_gather(own, out.first(comm.size() * work.count)), work.algorithm);
}

Task<> all_reduce(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<const float> own = in.first(work.count);
  co_await by_algorithm(comm.all_reduce(own, out.first(work.count), ReduceOp::sum), work.algorithm);
}

Task<> broadcast(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<float> data = (comm.rank() == 0 ? in : out).first(work.count);
  co_await by_algorithm(comm.broadcast(data, 0), work.algorithm);
}

Task<> gather(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<const float> own = in.first(work.count);
  co_await by_algorithm(comm.gather(own, out.first(comm.size() * work.count), 0), work.algorithm);
}

Task<> send_or_recv(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  if (comm.rank() == 0) co_await comm.send(std::span<const float>(in.first(work.count)), 1);
  if (comm.rank() == 1) co_await comm.recv(out.first(work.count), 0);
}

/// Room for every rank's elements, given and got.
class Memory {
 public:
  Memory(Communicator& comm, const Work& work, bool is_shared)
      : private_in_(is_shared ? 0 : comm.size() * work.count), private_out_(private_in_.size()) {
    if (is_shared) {
      shared_in_ = comm.allocate<float>(comm.size() * work.count);
      shared_out_ = comm.allocate<float>(comm.size() * work.count);
    }
    in = is_shared ? shared_in_.span() : std::span(private_in_);
    out = is_shared ? shared_out_.span() : std::span(private_out_);
    std::ranges::fill(in, kGiven);
  }
  void reuse() const {
    std::ranges::fill(in, kReused);
    std::ranges::fill(out, kReused);
  }

  std::span<float> in;
  std::span<float> out;

 private:
  std::vector<float> private_in_;
  std::vector<float> private_out_;
  SharedBuffer<float> shared_in_;
  SharedBuffer<float> shared_out_;
};

/// A rank's part of a test: what its process is to end with.
using Part = std::function<Task<int>(Communicator& comm, const Work& work, const Words& words)>;

int live(Rank rank, Rank ranks, const std::string& address, const Work& work, const Words& words,
         const Part& part) {
  int status = kOtherError;
  const RankFunction function = [&](Communicator& comm) -> Task<> {
    const int ended = co_await part(comm, work, words);
    status = ended;
  };
  try {
    Engine engine;
    CommunicatorOptions options;
    options.join.rank = rank;
    options.join.size = ranks;
    options.join.address = address;
    options.join.host_id = test::host_of(rank, ranks, work.hosts);
    options.pull_from_bytes = work.is_by_kernel ? 1 : kNeverPull;
    options.timeout = std::chrono::minutes(1);
    engine.run(test::take_part(engine, std::move(options), function));
  } catch (const Error& error) {  // of close(), where the call has told it already
    if (status == kOtherError) fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  }
  return status;
}

/// Each piece of work in processes of its own, all at the same time: most of them is waiting.
class GivenBack {
 public:
  /// The last rank's part is that of all from it on.
  GivenBack(std::vector<Work> works, std::vector<Part> parts, std::vector<int> expected)
      : works_(std::move(works)), parts_(std::move(parts)), expected_(std::move(expected)) {}

  void run() {
    std::vector<std::unique_ptr<Words>> words;
    std::vector<std::unique_ptr<test::MortalRanks>> jobs;
    for (const Work& work : works_) {
      const Words& of_job = *words.emplace_back(std::make_unique<Words>());
      test::MortalRanks& ranks = *jobs.emplace_back(std::make_unique<test::MortalRanks>());
      const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
      const Rank size = ranks_of(work);
      const auto life = [&](Rank rank, int progress) {
        (void)!::write(progress, "x", 1);
        return live(rank, size, address, work, of_job, of(parts_, rank));
      };
      ranks.start(size, life);
    }
    for (std::size_t i = 0; i < works_.size(); ++i)
      for (Rank rank = 0; rank < ranks_of(works_[i]); ++rank)
        EXPECT_EQ(jobs[i]->status_of(rank), of(expected_, rank))
            << works_[i].name << " " << works_[i].algorithm << ", rank " << rank;
  }

 private:
  static Rank ranks_of(const Work& work) { return work.hosts == 1 ? 2 : 3; }
  template <class T>
  static const T& of(const std::vector<T>& by_rank, Rank rank) {
    return by_rank[std::min<std::size_t>(rank, by_rank.size() - 1)];
  }

  const std::vector<Work> works_;
  const std::vector<Part> parts_;
  const std::vector<int> expected_;
};

Task<> give_up() {
  throw Error(ErrorKind::InvalidArgument, "enough");
  co_return;
}

/// Works until give_up() is called, and then has its memory back.
Task<int> work_until(Communicator& comm, const Work& work, const Memory& memory, Task<> until) {
  Task<> working = work.calls(comm, work, memory.in, memory.out);
  try {
    co_await when_all(std::move(working), std::move(until));
  } catch (const Error&) {
    memory.reuse();
    co_return kGaveUp;
  }
  co_return kReturnedIt;
}

int status_of(const std::optional<Error>& error) {
  if (!error) return kReturnedIt;
  if (error->kind() == ErrorKind::PeerAborted && error->culprit() == Rank{0}) return kWasTold;
  fmt::print(stderr, "{}\n", error->what());
  return kOtherError;
}

/// Calls it once, so that all that it needs is there, and again.
Task<int> give_up_when_peer_is_held(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  auto until_held = [&]() -> Task<> {
    while (!words.is_held.has_come()) co_await comm.engine().sleep_for(1ms);
    co_await give_up();
  };
  const int status = co_await work_until(comm, work, memory, until_held());
  words.goes_on.tell();
  words.is_over.wait();
  co_return status;
}

/// It takes its block, or the first rank's.
Task<int> be_held_amid_work(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  if (work.is_by_kernel)
    expect_to_be_held_before_copy(words);
  else
    expect_to_be_held_at(&memory.out[work.count - 1], words);
  const auto error = co_await error_of(work.calls(comm, work, memory.in, memory.out));
  words.is_over.tell();
  co_return status_of(error);
}

// Whatever way the bytes take: where the call is made, in turns with others, in a schedule, where they were
// announced; over links; in messages; by the kernel, from a peer and to it.
TEST(GivenBackMemory, of_a_peer_that_gave_up_on_a_rank_is_in_no_result_of_its) {
  constexpr std::size_t kSmall = std::size_t{8} << 10;
  constexpr std::size_t kLarge = std::size_t{256} << 10;
  constexpr std::size_t kMessage = std::size_t{12} << 10;
  GivenBack({{"reduce_scatter", reduce_scatter, "direct", kSmall},
             {"large reduce_scatter", reduce_scatter, "direct", kLarge},
             {"reduce_scatter", reduce_scatter, "slots", kSmall},
             {"all_gather", all_gather, "direct", kSmall},
             {"broadcast", broadcast, "tree", kSmall},
             {"all_gather", all_gather, "ring", kSmall},
             {"message", send_or_recv, "", kMessage},
             {"private all_gather", all_gather, "direct", kSmall, false, true},
             {"private gather", gather, "direct", kSmall, false, true},
             {"private message", send_or_recv, "", kMessage, false, true}},
            {give_up_when_peer_is_held, be_held_amid_work}, {kGaveUp, kWasTold})
      .run();
}

Task<int> give_up_while_peer_computes(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  words.is_held.wait();
  auto awhile = [&]() -> Task<> {
    co_await comm.engine().sleep_for(100ms);
    co_await give_up();
  };
  const int status = co_await work_until(comm, work, memory, awhile());
  words.goes_on.tell();
  words.is_over.wait();
  co_return status;
}

Task<int> compute_amid_work(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  auto compute = [&]() -> Task<> {
    words.is_held.tell();
    words.goes_on.wait();
    co_return;
  };
  auto both = [&]() -> Task<> {
    co_await when_all(work.calls(comm, work, memory.in, memory.out), compute());
  };
  const auto error = co_await error_of(both());
  words.is_over.tell();
  co_return status_of(error);
}

/// Of another host: what was sent before is here.
Task<int> be_told_or_have_it(Communicator& comm, const Work& work, const Words&) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  const auto error = co_await error_of(work.calls(comm, work, memory.in, memory.out));
  const bool has_it = std::ranges::count(memory.out, kReused) == 0;
  co_return !error && has_it ? kWasTold : status_of(error);
}

// Nobody is stopped, and nobody waits for the rank that computes: its engine finds what was announced when it
// goes on.
TEST(GivenBackMemory, of_a_peer_that_gave_up_is_not_read_by_a_rank_that_comes_to_it_later) {
  constexpr std::size_t kCount = std::size_t{32} << 10;
  GivenBack({{"broadcast", broadcast, "one_shot", kCount},
             {"broadcast between hosts", broadcast, "", kCount, true, false, 2}},
            {give_up_while_peer_computes, compute_amid_work, be_told_or_have_it},
            {kGaveUp, kWasTold, kWasTold})
      .run();
}

/// The next one, which nobody else comes to.
Task<int> give_up_in_next_call(Communicator& comm, const Work& work, const Memory& memory,
                               const Words& words) {
  auto soon = [&]() -> Task<> {
    co_await comm.engine().sleep_for(1ms);
    co_await give_up();
  };
  const int status = co_await work_until(comm, work, memory, soon());
  words.is_given_back.tell();
  words.goes_on.tell();
  words.is_over.wait();
  co_return status;
}

/// It was through, and hears of it in its next call.
Task<int> go_on(Communicator& comm, const Work& work, const Memory& memory, const Words& words,
                const std::optional<Error>& error) {
  const bool is_right = std::ranges::none_of(memory.out, [](float value) { return value >= kReused; });
  int status = status_of(error);
  if (!error && is_right) {
    const auto next = co_await error_of(work.calls(comm, work, memory.in, memory.out));
    status = status_of(next) == kWasTold ? kWasThrough : kOtherError;
  }
  words.is_over.tell();
  co_return status;
}

Task<int> finish_and_give_up(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, false);
  co_await work.calls(comm, work, memory.in, memory.out);
  co_await work.calls(comm, work, memory.in, memory.out);
  words.is_held.wait();
  const int status = co_await give_up_in_next_call(comm, work, memory, words);
  co_return status;
}

Task<int> be_held_behind_phase(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, true);
  co_await work.calls(comm, work, memory.in, memory.out);
  expect_to_be_held_at(&memory.out[work.count - 1], words);
  const auto error = co_await error_of(work.calls(comm, work, memory.in, memory.out));
  const int status = co_await go_on(comm, work, memory, words, error);
  co_return status;
}

// It has referred to its vector alone, so that its result waits for the phase, and is copied behind it.
TEST(GivenBackMemory, of_a_later_call_does_not_fail_the_one_that_all_were_through_with) {
  GivenBack({{"all_reduce", all_reduce, "slots", std::size_t{16} << 10}},
            {finish_and_give_up, be_held_behind_phase}, {kGaveUp, kWasThrough})
      .run();
}

Task<int> be_held_and_give_up_later(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, true);
  co_await work.calls(comm, work, memory.in, memory.out);
  expect_to_be_held_at(&memory.out[2 * work.count - 1], words);
  co_await work.calls(comm, work, memory.in, memory.out);
  const int status = co_await give_up_in_next_call(comm, work, memory, words);
  co_return status;
}

/// It computes from when it has come to the last phase until its peer, with which it still waits there, has
/// lost patience in the next call.
Task<int> compute_in_phase(Communicator& comm, const Work& work, const Words& words) {
  constexpr int kTurns = 20;
  const Memory memory(comm, work, true);
  co_await work.calls(comm, work, memory.in, memory.out);
  std::ranges::fill(memory.out, 0.0f);
  auto compute = [&]() -> Task<> {
    while (!words.is_held.has_come() || memory.out[work.count - 1] != kGiven)
      co_await comm.engine().sleep_for(1ms);
    for (int turn = 0; turn < kTurns; ++turn) co_await comm.engine().sleep_for(1ms);
    words.goes_on.tell();
    words.is_given_back.wait();
  };
  auto both = [&]() -> Task<> {
    co_await when_all(work.calls(comm, work, memory.in, memory.out), compute());
  };
  const auto error = co_await error_of(both());
  const int status = co_await go_on(comm, work, memory, words, error);
  co_return status;
}

TEST(GivenBackMemory, of_a_later_call_does_not_fail_a_schedule_that_all_were_through_with) {
  GivenBack({{"all_gather", all_gather, "direct", std::size_t{8} << 10}},
            {be_held_and_give_up_later, compute_in_phase}, {kGaveUp, kWasThrough})
      .run();
}

}  // namespace
}  // namespace cohort
