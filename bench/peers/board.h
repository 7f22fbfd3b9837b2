// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace cohort::peers {

inline constexpr int kMaxRanks = 64;
inline constexpr std::size_t kMaxIterations = 20'000;

inline std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// What the ranks of one measurement share, beside and independent of the library under test: the start line,
/// every rank's samples, and the two lines that measure the way between two cores. A memfd: nothing has to be
/// cleaned up.
struct Board {
  struct alignas(64) Slot {
    cpu_set_t cpus{};
    std::atomic<int> runs_on{0};  // at the start line
    std::atomic<bool> wrong{false};
    std::array<double, kMaxIterations> sample_us{};
  };

  alignas(64) std::atomic<std::uint64_t> arrived{0};
  // Written before the release below. A fast rank 0 may arrive at the next crossing before a slow rank has
  // read the answer of this one, but not at the one after: hence two answers, by parity.
  std::int64_t start_ns = 0;
  std::array<bool, 2> stop{};
  alignas(64) std::atomic<std::uint32_t> released{0};  // a futex where ranks sleep
  std::atomic<bool> failed{false};
  alignas(64) std::atomic<std::uint64_t> ping{0};
  alignas(64) std::atomic<std::uint64_t> pong{0};
  alignas(64) std::atomic<std::uint64_t> calibrated{0};
  double round_trip_ns = 0;
  std::int64_t wall_ns = 0;
  std::array<Slot, kMaxRanks> slots{};

  /// A new board and the path under which another process of this user can attach to it while this one lives.
  static std::pair<Board*, std::string> create() {
    const int fd = memfd_create("peer_bench", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(Board)) != 0) {
      throw std::system_error(errno, std::generic_category(), "board");
    }
    auto* board = new (map(fd)) Board;
    return {board, "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd)};
  }

  static Board* attach(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
    return static_cast<Board*>(map(fd));
  }

 private:
  static void* map(int fd) {
    void* address = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap of the board");
    return address;
  }
};

/// Where the hypervisor has put two virtual processors, by the round trip of a cache line between them: on
/// one core, on two that share a cache, or farther apart. Figures of different placements do not compare.
enum class Placement { siblings, near, far };

inline Placement placement_of(double round_trip_ns) {
  constexpr double kSiblingsNs = 100;
  constexpr double kNearNs = 250;
  return round_trip_ns < kSiblingsNs ? Placement::siblings
         : round_trip_ns < kNearNs   ? Placement::near
                                     : Placement::far;
}

/// How a rank waits at the start line: as the library under test waits, or it would be measured in a state it
/// is never in.
enum class Waiting {
  /// With a core per rank: spins, then all leave at a time the last one set, so that no rank has a head
  /// start.
  ///
  /// With fewer cores: yields, and each leaves as it is scheduled; an operation has begun when the last one
  /// had come, since whoever leaves first is at work on it while others are still to be scheduled.
  awake,
  /// Sleeps, and each leaves as it is woken.
  asleep
};

/// Brings all ranks to one point at one time, without the library under test.
///
/// `progress` is called while a rank waits long and awake, because an MPI may need the rank that is already
/// here to move the bytes of one that is not.
class StartLine {
 public:
  StartLine(Board& board, int rank, int ranks, Waiting waiting, std::function<void()> progress)
      : board_(board), rank_(rank), ranks_(ranks), waiting_(waiting), progress_(std::move(progress)) {
    if (ranks > kMaxRanks) throw std::invalid_argument("at most " + std::to_string(kMaxRanks) + " ranks");
    Board::Slot& own = board_.slots[static_cast<std::size_t>(rank)];
    sched_getaffinity(0, sizeof own.cpus, &own.cpus);
    own.sample_us.fill(0);  // faults the pages in
    cross(false);
    // A launcher may have bound each rank to a core of its own: what all may use together counts.
    cpu_set_t usable;
    CPU_ZERO(&usable);
    for (int peer = 0; peer < ranks; ++peer) {
      CPU_OR(&usable, &usable, &board_.slots[static_cast<std::size_t>(peer)].cpus);
    }
    processors_ = CPU_COUNT(&usable);
    spins_ = waiting == Waiting::awake && processors_ >= ranks;
  }

  /// Waits for all ranks. Rank 0's `stop` is everybody's answer. Throws when another rank has failed.
  bool cross(bool stop) {
    ++generation_;
    board_.slots[static_cast<std::size_t>(rank_)].runs_on.store(sched_getcpu(), std::memory_order_relaxed);
    bool& answer = board_.stop[generation_ % 2];
    if (rank_ == 0) answer = stop;
    const std::uint64_t all = std::uint64_t{generation_} * static_cast<std::uint64_t>(ranks_);
    if (board_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
      board_.start_ns = now_ns() + (spins_ ? kHeadStartNs : 0);
      board_.released.store(generation_, std::memory_order_release);
      if (waiting_ == Waiting::asleep) syscall(SYS_futex, &board_.released, FUTEX_WAKE, ranks_);
    } else if (waiting_ == Waiting::asleep) {
      sleep_until_release();
    } else {
      wait_for_release();
    }
    while (spins_ && now_ns() < board_.start_ns) relax();
    return answer;
  }

  /// When what comes now has begun, for this rank. After cross().
  std::int64_t start_ns() const { return waiting_ == Waiting::awake && !spins_ ? board_.start_ns : now_ns(); }

  /// Whether no processor had more ranks to carry than it has to, when they came here last.
  bool is_spread() const {
    if (spins_ || waiting_ == Waiting::asleep) return true;
    const int most = (ranks_ + processors_ - 1) / processors_;
    std::map<int, int> carried;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Board::Slot& slot = board_.slots[static_cast<std::size_t>(rank)];
      if (++carried[slot.runs_on.load(std::memory_order_relaxed)] > most) return false;
    }
    return true;
  }

  /// Median round trip of a cache line between the cores of ranks 0 and 1, in ns, on every rank; 0 if they
  /// share a core. Call on all ranks together. Short beside a measurement.
  double core_round_trip_ns() {
    ++calibrations_;
    cross(false);
    if (rank_ > 1) {
      while (board_.calibrated.load(std::memory_order_acquire) < calibrations_) usleep(200);
    } else {
      measure_round_trip();
    }
    cross(false);
    return board_.round_trip_ns;
  }

  /// The same, after waiting at most `patience_ns` until the cores are near. Half as long after each time in
  /// vain.
  double wait_for_near(std::int64_t patience_ns) {
    constexpr unsigned kPauseUs = 8'000;
    const std::int64_t begin = now_ns();
    for (;;) {
      const double round_trip_ns = core_round_trip_ns();
      const bool is_near = placement_of(round_trip_ns) == Placement::near;
      const bool is_enough = is_near || round_trip_ns == 0 || now_ns() - begin >= patience_ns / impatience_;
      if (cross(is_enough)) {
        impatience_ = is_near ? 1 : std::min(2 * impatience_, kMostImpatience);
        return round_trip_ns;
      }
      usleep(kPauseUs);
    }
  }

 private:
  static constexpr std::int64_t kHeadStartNs = 1'000;  // a release reaches the farthest core earlier
  static constexpr int kSpins = 2'000;
  static constexpr int kYieldsPerProgress = 256;
  static constexpr int kBatches = 51;
  static constexpr int kMostImpatience = 64;
  static constexpr int kRoundsPerBatch = 20;

  void wait_for_release() {
    int polls = 0;
    while (board_.released.load(std::memory_order_acquire) < generation_) {
      ++polls;
      if (spins_ && polls < kSpins) {
        relax();
        continue;
      }
      sched_yield();
      if (polls % kYieldsPerProgress != 0) continue;
      if (board_.failed.load(std::memory_order_relaxed)) throw std::runtime_error("another rank failed");
      if (progress_) progress_();
    }
  }

  void sleep_until_release() {
    constexpr timespec kLookAround{.tv_sec = 0, .tv_nsec = 100'000'000};
    for (;;) {
      const std::uint32_t seen = board_.released.load(std::memory_order_acquire);
      if (seen == generation_) return;
      syscall(SYS_futex, &board_.released, FUTEX_WAIT, seen, &kLookAround);
      if (board_.failed.load(std::memory_order_relaxed)) throw std::runtime_error("another rank failed");
    }
  }

  void measure_round_trip() {
    const int first = first_cpu(board_.slots[0].cpus, -1);
    const int second = ranks_ > 1 ? first_cpu(board_.slots[1].cpus, first) : -1;
    double result = 0;
    if (second >= 0) {
      cpu_set_t before;
      sched_getaffinity(0, sizeof before, &before);
      pin(rank_ == 0 ? first : second);
      if (rank_ == 0) {
        result = ping();
      } else {
        pong();
      }
      sched_setaffinity(0, sizeof before, &before);
    }
    if (rank_ != 0) return;
    board_.round_trip_ns = result;
    board_.calibrated.store(calibrations_, std::memory_order_release);
  }

  double ping() {
    std::vector<double> batches;
    const std::uint64_t base = (calibrations_ - 1) * kBatches * kRoundsPerBatch;
    std::uint64_t round = base;
    for (int batch = 0; batch < kBatches; ++batch) {
      const std::int64_t start = now_ns();
      for (int i = 0; i < kRoundsPerBatch; ++i) {
        board_.ping.store(++round, std::memory_order_release);
        while (board_.pong.load(std::memory_order_acquire) != round) continue;
      }
      batches.push_back(static_cast<double>(now_ns() - start) / kRoundsPerBatch);
    }
    std::sort(batches.begin(), batches.end());
    return batches[kBatches / 2];
  }

  void pong() {
    const std::uint64_t last = calibrations_ * kBatches * kRoundsPerBatch;
    for (std::uint64_t round = last - kBatches * kRoundsPerBatch; round < last;) {
      while (board_.ping.load(std::memory_order_acquire) != round + 1) continue;
      board_.pong.store(++round, std::memory_order_release);
    }
  }

  static int first_cpu(const cpu_set_t& cpus, int other_than) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (cpu != other_than && CPU_ISSET(static_cast<std::size_t>(cpu), &cpus)) return cpu;
    }
    return -1;
  }

  static void pin(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<std::size_t>(cpu), &only);
    sched_setaffinity(0, sizeof only, &only);
  }

  Board& board_;
  const int rank_;
  const int ranks_;
  const Waiting waiting_;
  const std::function<void()> progress_;
  bool spins_ = false;
  int processors_ = 1;
  std::uint32_t generation_ = 0;
  std::uint64_t calibrations_ = 0;
  int impatience_ = 1;
};

}  // namespace cohort::peers
