// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/run.h>

#include <cohort/collectives/thread_team.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/error.h>
#include <cohort/engine/io/choose_driver.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/auth/identity.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <vector>

namespace cohort {
namespace {

void print_error(std::optional<Rank> rank, const char* what) {
  const std::string who = rank ? fmt::format("rank {}: ", *rank) : std::string();
  std::fputs(fmt::format("cohort: {}{}\n", who, what).c_str(), stderr);  // which nobody may take
}

/// Runs it and returns the exit status, with the error printed.
Task<int> report_status(Rank rank, Task<> taking_part) {
  try {
    co_await taking_part;
    co_return 0;
  } catch (const std::exception& error) {
    print_error(rank, error.what());
  } catch (...) {
    print_error(rank, "an exception of unknown type");
  }
  co_return 1;
}

/// The ranks from `first` on, all on one engine, that of the calling thread.
void run_ranks(Engine& engine, std::span<int> status, Rank first, const CommunicatorOptions& options,
               const RankFunction& function, Rank of) noexcept {
  try {
    std::vector<Task<>> ranks;
    const auto one = [&](Rank rank) -> Task<> {
      CommunicatorOptions own = options.for_rank(rank, of);
      const int result = co_await report_status(rank, run_rank(engine, std::move(own), function));
      status[rank - first] = result;
    };
    for (Rank i = 0; i < status.size(); ++i) ranks.push_back(one(first + i));
    const auto all = [&]() -> Task<> { co_await when_all(ranks); };
    engine.run(all());
  } catch (const std::exception& error) {
    print_error(first, error.what());
  }
}

/// For what ranks that are threads have open once they have joined; otherwise some would have joined when
/// others find that they cannot. Data connections over TCP come later.
void make_room_for_threads(std::size_t ranks, std::size_t engines) {
  constexpr std::size_t kOfEngine = 2;    // its ring, and what wakes it
  constexpr std::size_t kOfRank = 5;      // two listeners with their reserves, and its segment
  constexpr std::size_t kForMoments = 4;  // of a rank: what arrives, and what is proving itself
  const std::size_t doorbells = make_driver()->has_futex() ? 0 : ranks;  // of a rank: its own, its peers'
  const std::size_t least = kOfEngine * engines + ranks * (kOfRank + ranks - 1 + doorbells);
  make_real_platform()->make_room_for_descriptors(
      least, least + kForMoments * ranks, fmt::format("having {} ranks as threads of one process", ranks));
}

/// A rendezvous that no other job of this host can mean.
std::string unique_address() { return fmt::format("unix:cohort-threads-{:016x}", random_incarnation()); }

}  // namespace

Task<> run_rank(Engine& engine, CommunicatorOptions options, const RankFunction& function) {
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

int run(const RankFunction& function) noexcept {
  try {
    return run(function, CommunicatorOptions::from_environment());
  } catch (const std::exception& error) {
    print_error(std::nullopt, error.what());  // which rank this is was to be read there
    return 1;
  }
}

int run(const RankFunction& function, CommunicatorOptions options) noexcept {
  const Rank rank = options.join.rank;
  try {
    Engine engine;
    return engine.run(report_status(rank, run_rank(engine, std::move(options), function)));
  } catch (const std::exception& error) {
    print_error(rank, error.what());
  }
  return 1;
}

int run_threads(Rank ranks, const RankFunction& function, CommunicatorOptions options,
                unsigned threads) noexcept {
  try {
    if (options.join.address.empty()) options.join.address = unique_address();
    const Rank parts = threads == 0 ? ranks : std::min<Rank>(ranks, threads);
    make_room_for_threads(ranks, parts);
    std::vector<int> status(ranks, 1);
    const auto make_engine = [] { return std::make_unique<Engine>(); };
    run_on_threads(parts, make_engine, [&](Rank part, Engine& engine) {
      const Rank first = part * ranks / parts;
      const Rank end = (part + 1) * ranks / parts;
      run_ranks(engine, std::span(status).subspan(first, end - first), first, options, function, ranks);
    });
    for (const int one : status)
      if (one != 0) return one;
    return 0;
  } catch (const std::exception& error) {
    print_error(std::nullopt, error.what());  // of no rank: none has begun
    return 1;
  }
}

int run_threads(Rank ranks, const RankFunction& function, unsigned threads) noexcept {
  try {
    CommunicatorOptions options = CommunicatorOptions::collectives_from_environment();
    return run_threads(ranks, function, std::move(options), threads);
  } catch (const std::exception& error) {
    print_error(std::nullopt, error.what());
    return 1;
  }
}

}  // namespace cohort
