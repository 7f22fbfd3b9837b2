// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/job.h>

#include <cohort/collectives/run.h>
#include <cohort/engine/system/affinity.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/processor.h>
#include <cohort/engine/system/shared_memory.h>
#include <cohort/tools/bench/overlap.h>
#include <cohort/tools/bench/report.h>
#include <cohort/tools/bench/threads.h>
#include <cohort/tools/launch/forwarded.h>
#include <cohort/tools/launch/hosts_launcher.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/launch/own_program.h>
#include <cohort/tools/output_file.h>
#include <cohort/tools/print.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <new>

namespace cohort::bench {
namespace {

constexpr int kWrongStatus = 1;

/// In the environment of a rank's process: the descriptor of the board.
constexpr const char* kBoardVariable = "COHORT_BENCH_BOARD_FD";

/// After joining: from how many processors a rank may run on, the communicator learns whether the host is
/// oversubscribed.
void pin(const Membership& membership) {
  const std::vector<unsigned> processors = affinity::usable_processors();
  const std::vector<std::size_t> threads = threads_of(membership);
  const std::size_t last = *std::max_element(threads.begin(), threads.end());
  const std::size_t own = threads[membership.rank];
  const bool is_pinned = processors.size() == 1;  // by another rank of this thread
  if (!is_pinned && last < processors.size()) affinity::bind_thread(processors[own]);
}

/// Of a range, of those in a row that come to as many elements, the last.
std::vector<std::size_t> sizes_of(Exercise exercise, const Options& options) {
  if (!exercise->has_data) return {0};
  if (options.are_sizes_listed) return options.sizes_bytes;
  const auto count_of = [&](std::size_t bytes) {
    return shape_of(exercise, bytes, size_bytes(options.type), options.ranks).count;
  };
  std::vector<std::size_t> sizes;
  for (const std::size_t bytes : options.sizes_bytes) {
    if (!sizes.empty() && count_of(sizes.back()) == count_of(bytes)) sizes.pop_back();
    sizes.push_back(bytes);
  }
  return sizes;
}

/// The same for all_reduce beside computing.
Task<std::uint64_t> measure_overlaps(Communicator& comm, const Options& options, Measurement& measurement) {
  const std::string label = Report(options, comm.transport()).label();
  const bool prints = comm.rank() == 0;
  if (prints) print(overlap_head(options));
  std::uint64_t wrong = 0;
  for (const std::size_t bytes : options.sizes_bytes) {
    const Overlap overlap = co_await measure_overlap(comm, measurement, *options.overlap, bytes);
    wrong += overlap.wrong;
    if (overlap.wrong != 0)
      fmt::print(stderr, "cohort: bench: rank {}: {} wrong elements beside computing\n", comm.rank(),
                 overlap.wrong);
    if (prints) print(overlap_row(options, label, overlap));
  }
  co_return wrong;
}

/// What every rank does. Returns how many elements were wrong, on all ranks together.
Task<std::uint64_t> measure_all(Communicator& comm, const Options& options, Board& board) {
  const bool has_processors = processor::available_cores() >= options.ranks;
  if (options.pins_ranks && !options.is_joined) pin(comm.membership());  // launchers have a plan of their own
  Measurement measurement(comm, options, board, has_processors);
  if (options.overlap) {
    const std::uint64_t wrong = co_await measure_overlaps(comm, options, measurement);
    co_return wrong;
  }
  Report report(options, comm.transport());
  const bool prints = comm.rank() == 0;
  OutputFile picture(prints ? options.picture : "");
  if (prints && options.format == Format::table) print(place_of(comm.membership()));
  for (const Exercise exercise : options.exercises) {
    const std::string head = report.begin(exercise);
    if (prints) print(head);
    for (const std::size_t bytes : sizes_of(exercise, options)) {
      const Point point{exercise, bytes};
      const Result result = co_await measurement.measure(point);
      const std::string row = report.row(result);
      if (!prints) continue;
      print(row);
      if (result.wrong != 0)
        fmt::print(stderr, "cohort: bench: {} of {} bytes over {}: {} wrong {}\n", to_string(exercise), bytes,
                   report.label(), result.wrong, !exercise->has_data ? "departures" : "elements");
    }
    const std::string tail = report.end();
    if (prints) print(tail);
  }
  if (picture.is_wanted())
    picture.write(
        draw_chart(fmt::format("cohort {}, {} ranks over {}", COHORT_VERSION, options.ranks, report.label()),
                   report.curves()));
  picture.close();
  co_return report.total_wrong();
}

class BoardMemory {
 public:
  BoardMemory() : memory_(SharedMemory::create(sizeof(Board))), board_(new (memory_.data()) Board) {}
  explicit BoardMemory(int descriptor)
      : memory_(SharedMemory::map(Descriptor(descriptor), sizeof(Board))),
        board_(std::launder(reinterpret_cast<Board*>(memory_.data()))) {}

  [[nodiscard]] Board& board() const noexcept { return *board_; }
  [[nodiscard]] int descriptor() const noexcept { return memory_.descriptor(); }

 private:
  SharedMemory memory_;
  Board* board_;
};

/// The ranks' function, and what rank 0 counted.
class Body {
 public:
  Body(const Options& options, Board& board) : options_(options), board_(board) {}

  Task<> operator()(Communicator& comm) {
    Task<std::uint64_t> measure = measure_all(comm, options_, board_);
    // Processes are ended by their launcher, if it is ours.
    if ((options_.is_in_process || options_.is_joined) && options_.timeout)
      measure = with_deadline(*options_.timeout, std::move(measure));
    const std::uint64_t wrong = co_await measure;
    if (comm.rank() == 0) wrong_ = wrong;
  }
  [[nodiscard]] int status(int of_run) const noexcept {
    if (of_run != 0) return of_run;
    return wrong_ == 0 ? 0 : kWrongStatus;
  }

 private:
  const Options& options_;
  Board& board_;
  std::uint64_t wrong_ = 0;
};

int run_rank_process(const Options& options, int descriptor) {
  const BoardMemory memory(descriptor);
  Body body(options, memory.board());
  return body.status(run(std::ref(body)));
}

int run_in_job(const Options& options) {
  const BoardMemory memory;  // for this rank's samples: no other one maps it
  Body body(options, memory.board());
  CommunicatorOptions communicator = CommunicatorOptions::from_environment();
  if (!options.transport.empty()) communicator.transport = options.transport;
  return body.status(run(std::ref(body), std::move(communicator)));
}

int run_in_threads(const Options& options) {
  const BoardMemory memory;
  Body body(options, memory.board());
  CommunicatorOptions communicator = CommunicatorOptions::from_environment();
  communicator.join = JoinOptions();
  if (!options.transport.empty()) communicator.transport = options.transport;
  return body.status(
      run_threads(options.ranks, std::ref(body), std::move(communicator), processor::available_cores()));
}

/// The same command there: it finds itself in a job.
int run_on_hosts(const Options& options, const std::vector<std::string>& command) {
  LaunchOptions job;
  job.command = command;
  job.command.front() = own_program(command.front());
  job.timeout = options.timeout;
  job.prefix_output = false;
  job.environment = forwarded_variables({});
  if (!options.transport.empty()) job.environment.emplace_back("COHORT_TRANSPORT", options.transport);
  Engine engine({.spin = Duration::zero()});
  return engine.run(launch_on_hosts(engine, *options.hosts, std::move(job)));
}

int run_in_processes(const Options& options, const std::vector<std::string>& command) {
  const BoardMemory memory;
  LaunchOptions job;
  job.ranks = options.ranks;
  job.command = command;
  job.command.front() = own_program(command.front());
  job.timeout = options.timeout;
  job.prefix_output = false;
  job.inherited = {memory.descriptor()};
  job.environment.emplace_back(kBoardVariable, std::to_string(memory.descriptor()));
  if (!options.transport.empty()) job.environment.emplace_back("COHORT_TRANSPORT", options.transport);
  Engine engine({.spin = Duration::zero()});  // the cores belong to the ranks
  return engine.run(launch(engine, std::move(job)));
}

}  // namespace

std::optional<Rank> ranks_of_job_around() {
  if (environment::text(kBoardVariable)) return std::nullopt;
  const Rank size = CommunicatorOptions::from_environment().join.size;
  return size > 1 || environment::text("COHORT_RANK") ? std::optional(size) : std::nullopt;
}

int run_job(const Options& options, const std::vector<std::string>& command) {
  options.check();
  constexpr auto kLastDescriptor = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  const auto board = environment::number(kBoardVariable, 3, kLastDescriptor);
  if (board) return run_rank_process(options, static_cast<int>(*board));
  if (options.is_joined) return run_in_job(options);
  if (options.hosts) return run_on_hosts(options, command);
  return options.is_in_process ? run_in_threads(options) : run_in_processes(options, command);
}

}  // namespace cohort::bench
