// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/check/mutants.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>

namespace cohort::check {
namespace {

/// Survivors that are printed; the rest only count.
constexpr std::size_t kMostPrinted = 40;

class Runner {
 public:
  Runner(const std::vector<Case>& list, std::FILE* out, std::FILE* progress)
      : list_(list), out_(out), progress_(progress), shows_progress_(::isatty(::fileno(progress)) != 0) {}

  void work() {
    for (std::size_t i = next_.fetch_add(1); i < list_.size(); i = next_.fetch_add(1))
      take(list_[i], report_of(list_[i]));
  }

  bool finish() {
    if (shows_progress_) fmt::print(progress_, "\r{:60}\r", "");
    print_survivors();
    print_table();
    fmt::print(
        out_,
        "{} mutants: {} caught, {} equivalent, {} of other costs alone, {} known to be right, {} survive\n",
        sum_.mutants(), sum_.caught, sum_.equivalent, sum_.costlier, sum_.known, sum_.survivors.size());
    if (std::fflush(out_) != 0 || std::ferror(out_) != 0)
      throw system_error(errno, "writing what became of mutants");
    return sum_.survivors.empty();
  }

 private:
  /// Nothing leaves a thread: a case whose mutants cannot be made counts as one that survives.
  static MutantReport report_of(const Case& one) {
    try {
      return run_mutants(one);
    } catch (const std::exception& error) {
      MutantReport report;
      report.survivors.push_back(fmt::format("{}: {}", describe(one), error.what()));
      return report;
    }
  }

  void take(const Case& one, const MutantReport& report) {
    const std::scoped_lock lock(mutex_);
    ++done_;
    by_algorithm_[{one.op(), std::string(one.algorithm->name())}].add(report);
    sum_.add(report);
    if (!shows_progress_) return;
    fmt::print(progress_, "\r{} of {} cases, {} mutants ", done_, list_.size(), sum_.mutants());
    std::fflush(progress_);
  }

  void print_survivors() {
    for (std::size_t i = 0; i < std::min(sum_.survivors.size(), kMostPrinted); ++i)
      fmt::print(out_, "SURVIVES {}\n", sum_.survivors[i]);
    if (sum_.survivors.size() > kMostPrinted)
      fmt::print(out_, "and {} more\n", sum_.survivors.size() - kMostPrinted);
  }

  void print_table() {
    fmt::print(out_, "{:<15}{:<20}{:>9}{:>9}{:>12}{:>10}{:>15}{:>9}\n", "operator", "algorithm", "mutants",
               "caught", "equivalent", "costlier", "known right", "survive");
    for (const auto& [key, of] : by_algorithm_)
      fmt::print(out_, "{:<15}{:<20}{:>9}{:>9}{:>12}{:>10}{:>15}{:>9}\n", to_string(key.first), key.second,
                 of.mutants(), of.caught, of.equivalent, of.costlier, of.known, of.survivors.size());
    fmt::print(out_, "equivalent:");
    for (std::size_t kind = 0; kind < kChangeKinds; ++kind)
      fmt::print(out_, " {} {}", to_string(static_cast<ChangeKind>(kind)), sum_.equivalent_by_kind[kind]);
    fmt::print(out_, "\nknown right: docs/planted-faults.md says why\n");
  }

  const std::vector<Case>& list_;
  std::FILE* const out_;
  std::FILE* const progress_;
  const bool shows_progress_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::size_t done_ = 0;
  MutantReport sum_;
  std::map<std::pair<Operator, std::string>, MutantReport> by_algorithm_;
};

}  // namespace

bool run_mutants_of(const std::vector<Case>& list, unsigned threads, std::FILE* out, std::FILE* progress) {
  Runner runner(list, out, progress);
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads; ++i) workers.emplace_back([&] { runner.work(); });
  runner.work();
  for (std::thread& worker : workers) worker.join();
  return runner.finish();
}

}  // namespace cohort::check
