// SPDX-License-Identifier: Apache-2.0
// How much of an all_reduce hides behind computing: two streams, tied together by events.
//   build/release/bin/cohort run -n 2 -- build/release/bin/overlap
#include <cohort/cohort.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kBuckets = 8;
constexpr int kRounds = 7;

struct Work {
  std::vector<std::vector<float>> gradients;  // one bucket after the other becomes ready
  std::vector<float> activations;
  int repetitions = 1;
};

/// What computing one bucket costs: arithmetic on memory of its own.
void compute_bucket(Work& work) {
  for (int repeat = 0; repeat < work.repetitions; ++repeat)
    for (float& value : work.activations) value = std::sqrt(value * value + 1.0f);
}

/// Enqueues the computing of every bucket, and its all_reduce as soon as it is ready; waits for both streams.
cohort::Task<double> run_once(cohort::Communicator& comm, Work& work, bool computes, bool communicates) {
  cohort::Stream compute(comm.engine(), "compute");
  cohort::Stream communication(comm.engine(), "communication");
  std::array<cohort::Event, kBuckets> ready;
  co_await comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (computes) compute.compute([&work] { compute_bucket(work); });
    compute.record(ready[bucket]);
    communication.wait(ready[bucket]);
    if (communicates)
      communication.enqueue(comm.all_reduce(std::span(work.gradients[bucket]), cohort::ReduceOp::max));
  }
  co_await compute.synchronize();
  co_await communication.synchronize();
  co_return Milliseconds(std::chrono::steady_clock::now() - begin).count();
}

cohort::Task<double> median_of_rounds(cohort::Communicator& comm, Work& work, bool computes,
                                      bool communicates) {
  std::array<double, kRounds> times{};
  for (double& time : times) time = co_await run_once(comm, work, computes, communicates);
  std::sort(times.begin(), times.end());
  co_return times[kRounds / 2];
}

/// As much computing as communicating: where overlap can gain the most.
cohort::Task<> balance(cohort::Communicator& comm, Work& work) {
  const double target = co_await median_of_rounds(comm, work, false, true);
  const double one = co_await median_of_rounds(comm, work, true, false);
  std::array<double, 1> wanted = {std::max(1.0, target / one)};
  co_await comm.broadcast(std::span<double>(wanted), 0);
  work.repetitions = static_cast<int>(std::lround(wanted[0]));
}

/// Each rank has two threads at work, one that computes and one that communicates. Where they have a core
/// each, the shorter of the two hides behind the longer; where they share cores, there is as much to do as in
/// turn.
std::string verdict(cohort::Communicator& comm, double computing, double communicating, double both) {
  const unsigned cores = comm.engine().platform().available_cores();
  const double in_turn = computing + communicating;
  if (cores < 2 * comm.size())
    return fmt::format(
        "cores are the limit ({} for {} threads), and both at once take {:.2f} times both in turn", cores,
        2 * comm.size(), both / in_turn);
  const double hidden = std::clamp((in_turn - both) / communicating, 0.0, 1.0);
  return fmt::format("cores are free, and {:.0f}% of the communication is hidden", hidden * 100);
}

cohort::Task<> measure(cohort::Communicator& comm, std::size_t bytes) {
  Work work;
  work.gradients.assign(kBuckets, std::vector<float>(bytes / kBuckets / sizeof(float), 1.0f));
  work.activations.assign(64 * 1024, 1.0f);
  co_await balance(comm, work);
  const double computing = co_await median_of_rounds(comm, work, true, false);
  const double communicating = co_await median_of_rounds(comm, work, false, true);
  const double both = co_await median_of_rounds(comm, work, true, true);
  if (comm.rank() == 0)
    fmt::print(
        "{} ranks over {}, {} buckets of {} bytes: compute {:.2f} ms, communicate {:.2f} ms, both {:.2f} ms: "
        "{}\n",
        comm.size(), comm.transport(), kBuckets, bytes / kBuckets, computing, communicating, both,
        verdict(comm, computing, communicating, both));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures how much of an all_reduce is hidden behind computing");
  std::size_t bytes = std::size_t{16} << 20;
  app.add_option("--bytes", bytes, "Bytes to reduce in all buckets together")
      ->transform(CLI::AsSizeValue(false));
  CLI11_PARSE(app, argc, argv);
  return cohort::run([bytes](cohort::Communicator& comm) { return measure(comm, bytes); });
}
