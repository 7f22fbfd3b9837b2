// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/cohort.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// What tests have that take back the memory of a rank whose call fails: ranks in processes, which are held
/// up where it shows what others make of it.
namespace cohort::test {

// What a rank's process ends with.
inline constexpr int kWasThrough = 40;  ///< its call was over, and the next one failed
inline constexpr int kGaveUp = 41;
inline constexpr int kWasTold = 42;  ///< by the error of its call, that rank 0 gave up
inline constexpr int kWasToldOfDeath = 43;
inline constexpr int kReturnedIt = 50;
inline constexpr int kOtherError = 61;
inline constexpr int kCannotRunHere = 62;  ///< no process may read another one's memory
inline constexpr int kNoWord = 63;
inline constexpr int kCrashed = 64;

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
struct Hold {
  const Words* words = nullptr;
  std::byte* page = nullptr;    ///< at the first access to it
  bool is_before_copy = false;  ///< before the kernel copies from or to another process
};
inline Hold hold;

inline void hold_up() noexcept {
  hold.words->is_held.tell();
  hold.words->goes_on.wait();
}

inline void hold_up_at_page(int, siginfo_t* info, void*) {
  const auto* const at = static_cast<std::byte*>(info->si_addr);
  if (at < hold.page || at >= hold.page + memory_map::page_bytes()) ::_exit(kCrashed);
  ::mprotect(hold.page, memory_map::page_bytes(), PROT_READ | PROT_WRITE);
  hold_up();
}

inline void expect_to_be_held_at(float* element, const Words& words) {
  struct sigaction action {};
  action.sa_sigaction = hold_up_at_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
  const auto at = reinterpret_cast<std::uintptr_t>(element);
  hold.words = &words;
  hold.page = reinterpret_cast<std::byte*>(at - at % memory_map::page_bytes());
  if (::mprotect(hold.page, memory_map::page_bytes(), PROT_NONE) != 0) ::_exit(kCrashed);
}

inline constexpr float kGiven = 1;
inline constexpr float kReused = 666;

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

inline Collective by_algorithm(Collective call, const std::string& algorithm) {
  return algorithm.empty() ? std::move(call) : std::move(call).with_algorithm(algorithm);
}

inline Task<> reduce_scatter(Communicator& comm, const Work& work, std::span<float> in,
                             std::span<float> out) {
  const std::span<const float> all = in.first(comm.size() * work.count);
  co_await by_algorithm(comm.reduce_scatter(all, out.first(work.count), ReduceOp::sum), work.algorithm);
}

inline Task<> all_gather(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<const float> own = in.first(work.count);
  co_await by_algorithm(comm.all_gather(own, out.first(comm.size() * work.count)), work.algorithm);
}

inline Task<> all_reduce(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<const float> own = in.first(work.count);
  co_await by_algorithm(comm.all_reduce(own, out.first(work.count), ReduceOp::sum), work.algorithm);
}

inline Task<> broadcast(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<float> data = (comm.rank() == 0 ? in : out).first(work.count);
  co_await by_algorithm(comm.broadcast(data, 0), work.algorithm);
}

inline Task<> gather(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
  const std::span<const float> own = in.first(work.count);
  co_await by_algorithm(comm.gather(own, out.first(comm.size() * work.count), 0), work.algorithm);
}

inline Task<> send_or_recv(Communicator& comm, const Work& work, std::span<float> in, std::span<float> out) {
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

inline int live(Rank rank, Rank ranks, const std::string& address, const Work& work, const Words& words,
                const Part& part) {
  int status = kOtherError;
  const RankFunction function = [&](Communicator& comm) -> Task<> {
    status = kCannotRunHere;
    if (work.is_by_kernel && comm.reach().pull.from_bytes(PullUse::rooted) != 1) co_return;
    status = kOtherError;
    const int ended = co_await part(comm, work, words);
    status = ended;
  };
  try {
    Engine engine;
    CommunicatorOptions options;
    options.join.rank = rank;
    options.join.size = ranks;
    options.join.address = address;
    options.join.host_id = host_of(rank, ranks, work.hosts);
    options.pull_from_bytes = work.is_by_kernel ? 1 : kNeverPull;
    options.timeout = std::chrono::minutes(1);
    engine.run(run_rank(engine, std::move(options), function));
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
    std::vector<std::unique_ptr<MortalRanks>> jobs;
    for (const Work& work : works_) {
      const Words& of_job = *words.emplace_back(std::make_unique<Words>());
      MortalRanks& ranks = *jobs.emplace_back(std::make_unique<MortalRanks>());
      const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
      const Rank size = ranks_of(work);
      const auto life = [&](Rank rank, int progress) {
        (void)!::write(progress, "x", 1);
        return live(rank, size, address, work, of_job, of(parts_, rank));
      };
      ranks.start(size, life);
    }
    for (std::size_t i = 0; i < works_.size(); ++i)
      for (Rank rank = 0; rank < ranks_of(works_[i]); ++rank) {
        const int status = jobs[i]->status_of(rank);
        const bool is_left_out = works_[i].is_by_kernel && status == kCannotRunHere;
        EXPECT_TRUE(is_left_out || status == of(expected_, rank))
            << status << ", not " << of(expected_, rank) << ": " << works_[i].name << " "
            << works_[i].algorithm << ", rank " << rank;
      }
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

inline Task<> give_up() {
  throw Error(ErrorKind::InvalidArgument, "enough");
  co_return;
}

/// Works until give_up() is called, and then has its memory back.
inline Task<int> work_until(Communicator& comm, const Work& work, const Memory& memory, Task<> until) {
  Task<> working = work.calls(comm, work, memory.in, memory.out);
  try {
    co_await when_all(std::move(working), std::move(until));
  } catch (const Error&) {
    memory.reuse();
    co_return kGaveUp;
  }
  co_return kReturnedIt;
}

inline int status_of(const std::optional<Error>& error) {
  if (!error) return kReturnedIt;
  if (error->kind() == ErrorKind::PeerAborted && error->culprit() == Rank{0}) return kWasTold;
  if (error->kind() == ErrorKind::PeerDied && error->culprit() == Rank{0}) return kWasToldOfDeath;
  fmt::print(stderr, "{}\n", error->what());
  return kOtherError;
}

}  // namespace cohort::test
