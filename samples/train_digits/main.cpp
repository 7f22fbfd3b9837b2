// SPDX-License-Identifier: Apache-2.0
// Data parallel training on handwritten digits: gradients are averaged as they become ready, while the rest
// of the backward pass still computes.
//   build/release/bin/cohort run -n 4 -- build/release/bin/train_digits
#include <cohort/cohort.h>
#include <cohort/samples/train_digits/trainer.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using cohort::samples::Recipe;
using cohort::samples::Trainer;

/// Where the data lies when nobody says: beside this program, where it is installed, or in the source tree.
std::vector<std::filesystem::path> usual_places() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return {folder / "digits.csv", folder / COHORT_SAMPLES_SHARE / "digits.csv",
          std::filesystem::path(COHORT_SAMPLES_SOURCE) / "data" / "digits.csv"};
}

cohort::Task<bool> weights_are_identical(cohort::Communicator& comm, std::uint64_t hash) {
  std::array<std::int64_t, 1> mine = {static_cast<std::int64_t>(hash)};
  std::vector<std::int64_t> all(comm.size());
  co_await comm.all_gather(mine, all);
  bool identical = true;
  for (const std::int64_t other : all) identical = identical && other == mine[0];
  co_return identical;
}

/// A rank computes on one thread and communicates on another: with fewer cores than threads there is as much
/// to do as in turn, whatever is hidden.
std::string limit_of(cohort::Communicator& comm) {
  const unsigned cores = comm.engine().platform().available_cores();
  const unsigned threads = 2 * comm.size();
  return cores < threads ? fmt::format("cores ({} for {} threads)", cores, threads) : "network";
}

cohort::Task<> train(cohort::Communicator& comm, const std::vector<std::filesystem::path>& places,
                     const Recipe& recipe) {
  Trainer trainer(comm, cohort::samples::find_digits(places), recipe);
  for (std::size_t epoch = 0; epoch < recipe.epochs; ++epoch) {
    const double loss = co_await trainer.train_epoch(epoch);
    if (comm.rank() == 0) fmt::print("epoch {:2}/{}  loss {:.4f}\n", epoch + 1, recipe.epochs, loss);
  }
  const double accuracy = trainer.held_out_accuracy();
  const bool identical = co_await weights_are_identical(comm, trainer.parameters_hash());
  const cohort::samples::Timing timing = co_await trainer.slowest_timing();
  if (comm.rank() == 0)
    fmt::print(
        "result: transport={} ranks={} accuracy={:.3f} identical={} compute_ms={:.0f} comm_ms={:.0f} "
        "hidden={:.0f}% train_ms={:.0f} limit={}\n",
        comm.transport(), comm.size(), accuracy, identical ? "yes" : "no", timing.compute_ms,
        timing.communication_ms, timing.hidden() * 100, timing.step_ms, limit_of(comm));
  if (!identical) throw cohort::Error(cohort::ErrorKind::Internal, "the ranks ended with different weights");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a small network on handwritten digits, data parallel");
  std::filesystem::path data;
  Recipe recipe;
  app.add_option("--data", data,
                 "digits.csv, if it is not beside this program, installed or in the source tree");
  app.add_option("--epochs", recipe.epochs, "Passes over the training images")->capture_default_str();
  app.add_flag("!--in-turn", recipe.overlaps, "Compute and communicate in turn, to compare with");
  app.add_option("--seed", recipe.seed, "Of the split, the order of images and the first weights")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // progress at once, into the pipe of `cohort run` too
  const auto places = data.empty() ? usual_places() : std::vector{data};
  return cohort::run([&](cohort::Communicator& comm) { return train(comm, places, recipe); });
}
