// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/run.h>

#include <fmt/format.h>

#include <cstdio>
#include <thread>

namespace cohort {
namespace {

void print_error(Rank rank, const char* what) { fmt::print(stderr, "cohort: rank {}: {}\n", rank, what); }

/// The function on a joined communicator; a failure of its own is told to the others before this rank leaves.
Task<> take_part(Engine& engine, CommunicatorOptions options, const RankFunction& function) {
  Communicator comm = co_await Communicator::join(engine, std::move(options));
  std::exception_ptr failure;
  try {
    co_await function(comm);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    comm.abort(error.what());
  } catch (...) {
    failure = std::current_exception();
    comm.abort("an exception of unknown type");
  }
  co_await comm.close();
  if (failure) std::rethrow_exception(failure);
}

int run_rank(CommunicatorOptions options, const RankFunction& function) noexcept {
  const Rank rank = options.join.rank;
  try {
    Engine engine;
    engine.run(take_part(engine, std::move(options), function));
    return 0;
  } catch (const std::exception& error) {
    print_error(rank, error.what());
  } catch (...) {
    print_error(rank, "an exception of unknown type");
  }
  return 1;
}

/// A rendezvous that no other job of this host can mean.
std::string unique_address() { return fmt::format("unix:cohort-threads-{:016x}", random_incarnation()); }

}  // namespace

int run(const RankFunction& function) noexcept {
  try {
    return run_rank(CommunicatorOptions::from_environment(), function);
  } catch (const std::exception& error) {
    print_error(0, error.what());
    return 1;
  }
}

int run_threads(Rank ranks, const RankFunction& function, CommunicatorOptions options) noexcept {
  try {
    if (options.join.address.empty()) options.join.address = unique_address();
    std::vector<int> status(ranks, 1);
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&status, &function, &options, rank, ranks] {
        status[rank] = run_rank(options.for_rank(rank, ranks), function);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int one : status)
      if (one != 0) return one;
    return 0;
  } catch (const std::exception& error) {
    print_error(0, error.what());
    return 1;
  }
}

}  // namespace cohort
