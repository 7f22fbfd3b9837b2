// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/overlap.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace cohort::bench {
namespace {

constexpr std::string_view kForm = "engine and pool";
constexpr long kTrialPieces = 64;

/// Arithmetic on memory that stays in the first cache, in pieces of some microseconds.
class Computation {
 public:
  void run(long pieces) {
    constexpr int kPasses = 16;
    for (long piece = 0; piece < pieces; ++piece) {
      for (int pass = 0; pass < kPasses; ++pass)
        for (float& value : values_) value = std::sqrt(value * value + 1.0F);
      asm volatile("" : : "r"(values_.data()) : "memory");
    }
  }

 private:
  std::array<float, 2048> values_{};
};

std::string_view name_of(Computing computing) {
  return computing == Computing::all ? "all" : computing == Computing::one ? "one" : "device";
}

std::string_view place_of(Computing computing) {
  return computing == Computing::all   ? "every rank"
         : computing == Computing::one ? "rank 0"
                                       : "a device that the ranks wait for";
}

}  // namespace

double Overlap::hidden() const noexcept {
  const double shorter = std::min(comm_us, compute_us);
  return shorter > 0 ? std::clamp((comm_us + compute_us - both_us) / shorter, 0.0, 1.0) : 0;
}

Task<Overlap> measure_overlap(Communicator& comm, Measurement& measurement, Computing computing,
                              std::size_t bytes) {
  Workload& workload = measurement.workload();
  const Point point{operator_of<AllReduce>, bytes};
  workload.select(point);
  workload.write_input(0);
  Computation computation;
  const bool computes = computing != Computing::one || comm.rank() == 0;
  Duration on_device = std::chrono::microseconds(100);
  long pieces = kTrialPieces;
  const auto run = [&] { computation.run(pieces); };
  const std::function<Task<>()> communicate = [&]() -> Task<> {
    Collective operation = workload.make();
    co_await std::move(operation);
  };
  const std::function<Task<>()> compute = [&]() -> Task<> {
    if (computing == Computing::device) co_await comm.engine().sleep_for(on_device);
    if (!computes || computing == Computing::device) co_return;
    auto job = comm.engine().offload(run);
    co_await job;
  };
  const std::function<Task<>()> both = [&]() -> Task<> { co_await when_all(compute(), communicate()); };

  const std::vector<std::function<Task<>()>> alone = {communicate, compute};
  const std::vector<double> trial = co_await measurement.medians_of(alone);
  pieces = std::max(1L, std::lround(trial[0] / trial[1] * static_cast<double>(kTrialPieces)));
  on_device = std::chrono::nanoseconds(std::llround(trial[0] * 1e3));
  workload.poison();
  const std::vector<std::function<Task<>()>> all = {communicate, compute, both};
  const std::vector<double> us = co_await measurement.medians_of(all);
  const Overlap overlap{bytes, us[0], us[1], us[2], workload.count_wrong()};
  co_return overlap;
}

std::string overlap_head(const Options& options) {
  if (options.format == Format::json) return "";
  if (options.format == Format::csv)
    return "overlap,peer,transport,form,computing,ranks,bytes,comm_us,compute_us,both_us\n";
  return fmt::format(
      "# cohort all_reduce beside computing on {}: medians of the slowest rank, us\n"
      "#{:>12} {:>12} {:>12} {:>12} {:>8}\n",
      place_of(*options.overlap), "size", "all_reduce", "computing", "both", "hidden");
}

std::string overlap_row(const Options& options, const std::string& label, const Overlap& overlap) {
  const std::string_view computing = name_of(*options.overlap);
  if (options.format == Format::csv)
    return fmt::format("overlap,cohort,{},{},{},{},{},{:.3f},{:.3f},{:.3f}\n", label, kForm, computing,
                       options.ranks, overlap.bytes, overlap.comm_us, overlap.compute_us, overlap.both_us);
  if (options.format == Format::json) {
    nlohmann::ordered_json row;
    row["peer"] = "cohort";
    row["transport"] = label;
    row["computing"] = computing;
    row["ranks"] = options.ranks;
    row["bytes"] = overlap.bytes;
    row["comm_us"] = overlap.comm_us;
    row["compute_us"] = overlap.compute_us;
    row["both_us"] = overlap.both_us;
    row["hidden"] = overlap.hidden();
    return row.dump() + "\n";
  }
  return fmt::format(" {:>12} {:>12.2f} {:>12.2f} {:>12.2f} {:>7.0f}%\n", overlap.bytes, overlap.comm_us,
                     overlap.compute_us, overlap.both_us, 100 * overlap.hidden());
}

}  // namespace cohort::bench
