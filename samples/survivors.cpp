// SPDX-License-Identifier: Apache-2.0
// Training that goes on when ranks die: those that are left make a group of the living and share the work
// anew.
//   build/release/bin/cohort run -n 4 --keep-going -- build/release/bin/survivors --lose 2 30 --lose 0 60
//
// Each step shares its items among the ranks there are, so that the weights at the end are the same however
// many died on the way, and every rank checks them.
#include <cohort/cohort.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace cohort;

namespace {

constexpr std::size_t kWeights = 1 << 14;
constexpr std::int64_t kItems = 24;

struct Model {
  std::int64_t step = 0;
  std::vector<double> weights = std::vector<double>(kWeights);
};

struct Plan {
  std::int64_t steps = 100;
  std::map<Rank, std::int64_t> lost;  ///< which ranks are killed, and in which step
};

/// What an item adds to a weight in a step: whole numbers, so that sums are exact in any order.
double part_of(std::int64_t item, std::int64_t step, std::size_t weight) {
  return static_cast<double>((item + step + static_cast<std::int64_t>(weight)) % 11);
}

void compute_gradient(std::vector<double>& gradient, std::int64_t step, Rank rank, Rank ranks) {
  std::ranges::fill(gradient, 0.0);
  for (std::int64_t item = rank; item < kItems; item += ranks)
    for (std::size_t w = 0; w < kWeights; ++w) gradient[w] += part_of(item, step, w);
}

void check(const Model& model) {
  for (std::size_t w = 0; w < kWeights; ++w) {
    double expected = 0;
    for (std::int64_t step = 0; step < model.step; ++step)
      for (std::int64_t item = 0; item < kItems; ++item) expected += part_of(item, step, w);
    if (model.weights[w] != expected)
      throw Error(ErrorKind::Internal,
                  fmt::format("weight {} is {} instead of {}", w, model.weights[w], expected));
  }
}

/// As a failing host does it: at no particular place of the call that this rank is in.
void kill_this_process_soon() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

/// Ranks may have left the failed call on either side of its step, so all take the model of the first.
Task<> agree(Communicator& comm, Model& model) {
  Model agreed = model;  // buffers of a call that fails hold anything
  co_await comm.broadcast_bytes(agreed.step, 0);
  co_await comm.broadcast(agreed.weights, 0);
  model = std::move(agreed);
}

Task<> run_steps(Communicator& comm, Model& model, const Plan& plan) {
  const auto lost = plan.lost.find(comm.world_rank(comm.rank()));
  std::vector<double> gradient(kWeights);
  while (model.step < plan.steps) {
    compute_gradient(gradient, model.step, comm.rank(), comm.size());
    const bool is_lost = lost != plan.lost.end() && lost->second == model.step;
    if (is_lost) kill_this_process_soon();
    co_await comm.all_reduce(gradient, ReduceOp::sum);
    if (is_lost) co_await comm.engine().sleep_for(std::chrono::hours(1));
    for (std::size_t w = 0; w < kWeights; ++w) model.weights[w] += gradient[w];
    ++model.step;
  }
}

/// Whether a rank is gone, and not the program wrong.
bool is_loss(const Error& failure) {
  switch (failure.kind()) {
    case ErrorKind::PeerDied:
    case ErrorKind::PeerAborted:
    case ErrorKind::DeadlineExceeded:
    case ErrorKind::LinkFault: return true;
    default: return false;
  }
}

/// A group of the ranks that are left. Culprits are ranks of `world`, where all have joined. Without one this
/// rank asks all that it knows of, as all others then do: group() says who does not come.
Task<Communicator> regroup(Communicator& world, std::set<Rank>& gone, Error failure) {
  for (;;) {
    if (failure.culprit()) gone.insert(*failure.culprit());
    if (gone.contains(world.rank())) throw failure;  // the others go on without this one
    std::vector<Rank> living;
    for (Rank rank = 0; rank < world.size(); ++rank)
      if (!gone.contains(rank)) living.push_back(rank);
    std::string name = fmt::format("without.{}", fmt::join(gone, "."));  // the same on all that know the same
    try {
      co_return co_await world.group(std::move(living), std::move(name));
    } catch (const Error& error) {
      if (!is_loss(error) || !error.culprit()) throw;
      failure = error;  // another one is gone: once more without it
    }
  }
}

Task<> train(Communicator& world, const Plan& plan) {
  Model model;
  std::set<Rank> gone;
  std::optional<Communicator> team;  // of those that are left, once somebody is not
  for (;;) {
    Communicator& comm = team ? *team : world;
    std::optional<Error> failure;
    try {
      if (team) co_await agree(comm, model);
      co_await run_steps(comm, model, plan);
    } catch (const Error& error) {
      failure = error.culprit() ? error.with_culprit(comm.world_rank(*error.culprit())) : error;
    }
    if (!failure) break;
    fmt::print("rank {}, step {}: {}\n", world.rank(), model.step, failure->what());
    if (!is_loss(*failure)) throw Error(*failure);
    if (team) co_await team->close();
    Communicator next = co_await regroup(world, gone, *failure);
    team.emplace(std::move(next));
  }
  check(model);
  fmt::print("rank {}: {} steps, as one of {} at last, all weights right; lost: {}\n", world.rank(),
             model.step, team ? team->size() : world.size(),
             gone.empty() ? "nobody" : fmt::format("{}", fmt::join(gone, ", ")));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Goes on when ranks are killed");
  Plan plan;
  std::vector<std::int64_t> lost;
  app.add_option("--steps", plan.steps, "How many steps to make")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--lose", lost, "RANK STEP: kill that rank amid that step; may be repeated")
      ->expected(2, 64);
  CLI11_PARSE(app, argc, argv);
  for (std::size_t i = 0; i + 1 < lost.size(); i += 2) plan.lost[static_cast<Rank>(lost[i])] = lost[i + 1];
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // what a killed rank had printed stays
  return run([&plan](Communicator& world) { return train(world, plan); });
}
