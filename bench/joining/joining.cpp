// SPDX-License-Identifier: Apache-2.0
//
// How long ranks take to join, and what that costs. Threads are ranks, each a host of its own, in several
// processes, so that none needs more descriptors than it may have.
//   joining --ranks 256 --processes 16 --links neighbours
// prints links,ranks,wall_s,cpu_s,connections,descriptors,bytes: the last three per rank. --links
// communicator is the best of them, and what follows until a communicator is ready: hellos, and measurements
// unless this host keeps them from an earlier run; its connections are not counted. Bytes are what passed the
// loopback interface, with headers: in a network namespace of its own (unshare -n) that is the joining's
// alone.

#include <cohort/collectives/communicator.h>
#include <cohort/net/join/join.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace {

using namespace cohort;

struct Options {
  Rank ranks = 64;
  unsigned processes = 4;
  std::optional<ControlLinks> links;  ///< as rank 0 finds best
  bool makes_communicator = false;
  std::string address = "127.0.0.1:15777";
};

/// What the processes share.
struct Board {
  std::atomic<Rank> ready = 0;
  std::atomic<Rank> joined = 0;
  std::atomic<Rank> failed = 0;
  std::atomic<unsigned> counted = 0;
  std::atomic<std::uint64_t> connections = 0;
  std::atomic<std::uint64_t> descriptors = 0;
  std::atomic<std::int64_t> begun_ns = 0;
  std::atomic<std::int64_t> joined_ns = 0;  ///< the last one

  static Board& create() {
    void* const memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return *new (memory) Board;
  }
};

/// What everybody waits for, asleep: the end of a pipe, which the parent alone can bring about.
class Signal {
 public:
  Signal() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  void give() const noexcept { ::close(ends_[1]); }
  /// In a child, before anybody waits.
  void leave_to_parent() const noexcept { ::close(ends_[1]); }
  void wait() const noexcept {
    char nothing = 0;
    (void)!::read(ends_[0], &nothing, 1);
  }

 private:
  std::array<int, 2> ends_{};
};

struct Signals {
  Signal begins;
  Signal counts;  ///< all have joined
  Signal ends;
};

/// By the parent, which does nothing else.
template <class IsSo>
void look_until(const IsSo& is_so) {
  while (!is_so()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(all, {}));
}

/// That came over the loopback interface of this network namespace so far.
std::uint64_t loopback_bytes() {
  std::ifstream devices("/proc/self/net/dev");
  for (std::string name; devices >> name;) {
    std::uint64_t bytes = 0;
    if (name == "lo:" && devices >> bytes) return bytes;
  }
  return 0;
}

JoinOptions options_of(const Options& options, Rank rank) {
  JoinOptions mine;
  mine.rank = rank;
  mine.size = options.ranks;
  mine.address = options.address;
  mine.timeout = std::chrono::minutes(5);
  std::array<std::byte, Secret::kBytes> secret{};
  secret.fill(std::byte{1});
  mine.secret = Secret::from_bytes(secret);
  mine.host_id = fmt::format("host {}", rank);
  return mine;
}

/// Until all have joined and were counted.
void live_as(Rank rank, const Options& options, const Signals& signals, Board& board) {
  Engine engine;
  engine.set_oversubscribed(true);
  std::optional<Membership> membership;
  std::optional<Communicator> communicator;
  ++board.ready;
  signals.begins.wait();
  std::int64_t none = 0;
  board.begun_ns.compare_exchange_strong(none, now_ns());
  auto joins = [&]() -> Task<> {
    Membership joined = co_await join(engine, options_of(options, rank), 0, options.links);
    membership = std::move(joined);
  };
  auto makes = [&]() -> Task<> {
    CommunicatorOptions own;
    own.join = options_of(options, rank);
    own.buffer_bytes = std::size_t{64} << 10;
    own.heap_bytes = std::size_t{4} << 20;
    Communicator made = co_await Communicator::join(engine, std::move(own));
    communicator.emplace(std::move(made));
  };
  auto leaves = [&]() -> Task<> {
    Communicator leaving = *std::move(communicator);
    co_await leaving.close();
  };
  try {
    engine.run(options.makes_communicator ? makes() : joins());
    if (membership)
      board.connections +=
          static_cast<std::uint64_t>(std::ranges::count_if(membership->control, &Socket::is_open));
  } catch (const Error& error) {
    if (board.failed++ == 0) fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  }
  const std::int64_t now = now_ns();
  std::int64_t last = board.joined_ns;
  while (last < now && !board.joined_ns.compare_exchange_weak(last, now)) {
  }
  ++board.joined;
  signals.ends.wait();
  if (communicator) engine.run(leaves());
}

void live_as_process(unsigned process, const Options& options, const Signals& signals, Board& board) {
  for (const Signal* signal : {&signals.begins, &signals.counts, &signals.ends}) signal->leave_to_parent();
  ::rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<std::thread> ranks;
  for (Rank rank = process; rank < options.ranks; rank += options.processes)
    ranks.emplace_back(live_as, rank, std::cref(options), std::cref(signals), std::ref(board));
  signals.counts.wait();
  board.descriptors += open_descriptors();
  ++board.counted;
  for (std::thread& rank : ranks) rank.join();
}

double seconds(const ::timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

int measure(const Options& options, const std::string& links) {
  Board& board = Board::create();
  const Signals signals;
  const std::uint64_t bytes_before = loopback_bytes();
  for (unsigned process = 0; process < options.processes; ++process) {
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    live_as_process(process, options, signals, board);
    std::_Exit(0);
  }
  look_until([&] { return board.ready == options.ranks; });
  signals.begins.give();
  look_until([&] { return board.joined == options.ranks; });
  signals.counts.give();
  look_until([&] { return board.counted == options.processes; });
  signals.ends.give();
  while (::wait(nullptr) > 0) {
  }
  ::rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto per_rank = [&](std::uint64_t sum) { return static_cast<double>(sum) / options.ranks; };
  fmt::print("{},{},{:.2f},{:.2f},{:.1f},{:.1f},{:.0f}\n", links, options.ranks,
             static_cast<double>(board.joined_ns - board.begun_ns) / 1e9,
             seconds(used.ru_utime) + seconds(used.ru_stime), per_rank(board.connections),
             per_rank(board.descriptors), per_rank(loopback_bytes() - bytes_before));
  return board.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names{"best", "all", "neighbours", "communicator"};
  Options options;
  std::string links = names[0];
  CLI::App app("Measures joining: threads as ranks, each a host of its own");
  app.add_option("--ranks", options.ranks, "how many")->check(CLI::Range(2, 65536));
  app.add_option("--processes", options.processes, "that share them out")->check(CLI::Range(1, 1024));
  app.add_option("--links", links, "which control connections are made")->check(CLI::IsMember(names));
  app.add_option("--address", options.address, "of rank 0");
  CLI11_PARSE(app, argc, argv);
  if (links == "all") options.links = ControlLinks::all;
  if (links == "neighbours") options.links = ControlLinks::neighbours;
  options.makes_communicator = links == "communicator";
  try {
    return measure(options, links);
  } catch (const std::exception& error) {
    fmt::print(stderr, "joining: {}\n", error.what());
    return 1;
  }
}
