// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/ranks.h>

#include <cohort/net/auth/identity.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

namespace cohort::test {
namespace {

Task<> take_part(Engine& engine, CommunicatorOptions options, const RankFunction& function) {
  Communicator comm = co_await Communicator::join(engine, std::move(options));
  std::exception_ptr failure;
  try {
    co_await function(comm);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    comm.abort(error.what());
  }
  co_await comm.close();
  if (failure) std::rethrow_exception(failure);
}

Outcome run_one(CommunicatorOptions options, const RankFunction& function) {
  try {
    Engine engine;
    engine.run(take_part(engine, std::move(options), function));
    return {};
  } catch (const Error& error) {
    return {error};
  } catch (const std::exception& error) {
    return {Error(ErrorKind::Internal, error.what())};
  }
}

}  // namespace

std::string host_of(Rank rank, Rank ranks, Rank hosts) {
  return hosts == 1 ? std::string() : fmt::format("host {}", rank * hosts / ranks);
}

std::vector<Outcome> outcomes_of_ranks(Rank ranks, const RankFunction& function, CommunicatorOptions options,
                                       Rank hosts) {
  options.join.address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
  options.join.timeout = std::chrono::seconds(60);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&outcomes, &function, &options, rank, ranks, hosts] {
      CommunicatorOptions own = options.for_rank(rank, ranks);
      own.join.host_id = host_of(rank, ranks, hosts);
      outcomes[rank] = run_one(std::move(own), function);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void run_ranks(Rank ranks, const RankFunction& function, CommunicatorOptions options, Rank hosts) {
  const std::vector<Outcome> outcomes = outcomes_of_ranks(ranks, function, std::move(options), hosts);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto& error = outcomes[rank].error;
    EXPECT_FALSE(error.has_value()) << "rank " << rank << ": " << error->what();
  }
}

}  // namespace cohort::test
