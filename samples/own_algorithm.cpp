// SPDX-License-Identifier: Apache-2.0
// An algorithm of one's own: proved, predicted, and then run by its name on a communicator.
//   cohort run -n 4 -- own_algorithm
#include <cohort/cohort.h>
#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/machines/sim/simulate.h>

#include <fmt/core.h>
#include <vector>

using namespace cohort;

namespace {

/// Star broadcast: the root waits for an Ack of each rank in turn, and sends it everything.
Task<> star(Exec& x, Broadcast op) {
  if (x.rank() != op.root) {
    Link& root = x.link(op.root);
    co_await root.post(Signal::Ack);
    co_await root.recv(op.data);
    co_return;
  }
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).send(op.data);
}

const Algorithm<Broadcast> kStar = {.name = "star", .needs = links_to_all, .schedule = star};

Task<> broadcast(Communicator& comm) {
  std::vector<float> data(1000, comm.rank() == 0 ? 42.0F : 0.0F);
  auto call = comm.broadcast(std::span(data), 0).with_algorithm("star");
  co_await std::move(call);
  fmt::print("rank {} of {}: {}\n", comm.rank(), comm.size(), data.back());
}

}  // namespace

int main() {
  CommunicatorOptions options = CommunicatorOptions::from_environment();
  options.algorithms.push_back(kStar);
  if (options.join.size == 1)
    return fmt::print(stderr, "start it with: cohort run -n 4 -- own_algorithm\n"), 2;
  if (options.join.rank == 0) {
    check::CheckOptions proof;
    proof.ranks = options.join.size;
    const check::Report report = check::check(kStar, proof);
    fmt::print("the checker: {}\n", report.passed() ? "passed" : report.text());
    const sim::Prediction one = sim::simulate(kStar, sim::Topology{}, {.ranks = 64, .bytes = 1 << 20});
    fmt::print("64 ranks, 1 MiB, one rank a host: {:.1f} us\n", one.microseconds);
  }
  return run(broadcast, std::move(options));
}
