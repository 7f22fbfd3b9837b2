// SPDX-License-Identifier: Apache-2.0
// Aggregates a gradient over ranks that are started by hand, one in each terminal:
//   build/release/bin/gradient_all_reduce 0 2        build/release/bin/gradient_all_reduce 1 2
// Ranks of one user on one host find each other without further settings; across hosts set COHORT_ADDR and
// COHORT_SECRET_FILE.
#include <cohort/cohort.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace {

constexpr std::size_t kGradients = std::size_t{1} << 20;

/// Small whole numbers, so that the sum is exact and can be verified whatever the order.
float gradient_of(cohort::Rank rank, std::size_t index) {
  return static_cast<float>(rank + 1) * static_cast<float>(index % 7 + 1);
}

std::size_t count_wrong(std::span<const float> sum, cohort::Rank ranks) {
  const auto all_ranks = static_cast<float>(ranks * (ranks + 1) / 2);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sum.size(); ++i)
    wrong += sum[i] == all_ranks * static_cast<float>(i % 7 + 1) ? 0U : 1U;
  return wrong;
}

cohort::Task<int> aggregate(cohort::Engine& engine, cohort::CommunicatorOptions options) {
  fmt::print("rank {}: waiting for {} ranks\n", options.join.rank, options.join.size);
  cohort::Communicator comm = co_await cohort::Communicator::join(engine, std::move(options));
  std::vector<float> gradient(kGradients);
  for (std::size_t i = 0; i < kGradients; ++i) gradient[i] = gradient_of(comm.rank(), i);
  const std::span<const float> first(gradient.data(), 5);

  fmt::print("rank {}: before, first five: {}\n", comm.rank(), first);
  co_await comm.all_reduce(std::span(gradient), cohort::ReduceOp::sum);
  fmt::print("rank {}: after,  first five: {}\n", comm.rank(), first);

  const std::size_t wrong = count_wrong(gradient, comm.size());
  fmt::print("rank {}: {} of {} values are right\n", comm.rank(), kGradients - wrong, kGradients);
  co_await comm.close();
  co_return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Sums a gradient over ranks started by hand");
  cohort::Rank rank = 0;
  cohort::Rank size = 0;
  app.add_option("RANK", rank, "This rank, from 0")->required();
  app.add_option("SIZE", size, "Number of ranks")->required()->check(CLI::Range(1, 65535));
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format(
        "gradient_all_reduce: {}; start one process for each rank, as gradient_all_reduce 0 2 and "
        "gradient_all_reduce 1 2 in two terminals\n",
        error.what());
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    auto options = cohort::CommunicatorOptions::from_environment();
    options.join.rank = rank;
    options.join.size = size;
    options.join.name = "gradient_all_reduce";
    cohort::Engine engine;
    return engine.run(aggregate(engine, std::move(options)));
  } catch (const std::exception& error) {
    fmt::print(stderr, "gradient_all_reduce: rank {}: {}\n", rank, error.what());
    return 1;
  }
}
