// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/check/mutants.h>

#include <cohort/tools/check/case_runner.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cohort::check {
namespace {

/// Survivors that are printed; the rest only count.
constexpr std::size_t kMostMutantsPrinted = 40;

class Mutants final : public Sum<MutantReport> {
 public:
  Mutants(std::FILE* out, std::size_t stride) : out_(out), stride_(stride) {}

  [[nodiscard]] MutantReport run(const Case& one) const override { return run_mutants(one, stride_); }
  /// A case whose mutants cannot be made counts as one that survives.
  [[nodiscard]] MutantReport not_run(const Case& one, const std::exception& why) const override {
    MutantReport report;
    report.survivors.push_back(fmt::format("{}: {}", describe(one), why.what()));
    return report;
  }

  void add(const Case& one, const MutantReport& report, ProgressLine&) override {
    by_algorithm_[{one.op(), std::string(one.algorithm->name())}].add(report);
    sum_.add(report);
  }

  [[nodiscard]] std::string state() const override { return fmt::format("{} mutants", sum_.mutants()); }
  [[nodiscard]] bool has_survivors() const noexcept { return !sum_.survivors.empty(); }

  void print() override {
    print_survivors();
    print_table();
    fmt::print(
        out_,
        "{} mutants: {} caught, {} equivalent, {} of other costs alone, {} known to be right, {} survive\n",
        sum_.mutants(), sum_.caught, sum_.equivalent, sum_.costlier, sum_.known, sum_.survivors.size());
  }

 private:
  void print_survivors() {
    for (std::size_t i = 0; i < std::min(sum_.survivors.size(), kMostMutantsPrinted); ++i)
      fmt::print(out_, "SURVIVES {}\n", sum_.survivors[i]);
    if (sum_.survivors.size() > kMostMutantsPrinted)
      fmt::print(out_, "and {} more\n", sum_.survivors.size() - kMostMutantsPrinted);
  }

  void print_table() {
    fmt::print(out_, "{:<18}{:<20}{:>9}{:>9}{:>12}{:>10}{:>15}{:>9}\n", "operator", "algorithm", "mutants",
               "caught", "equivalent", "costlier", "known right", "survive");
    for (const auto& [key, of] : by_algorithm_)
      fmt::print(out_, "{:<18}{:<20}{:>9}{:>9}{:>12}{:>10}{:>15}{:>9}\n", to_string(key.first), key.second,
                 of.mutants(), of.caught, of.equivalent, of.costlier, of.known, of.survivors.size());
    fmt::print(out_, "equivalent:");
    for (std::size_t kind = 0; kind < kChangeKinds; ++kind)
      fmt::print(out_, " {} {}", to_string(static_cast<ChangeKind>(kind)), sum_.equivalent_by_kind[kind]);
    fmt::print(out_, "\nknown right: docs/generated/planted-faults.md says why\n");
  }

  std::FILE* const out_;
  const std::size_t stride_;
  MutantReport sum_;
  std::map<std::pair<Operator, std::string>, MutantReport> by_algorithm_;
};

}  // namespace

bool run_mutants_of(const std::vector<Case>& list, std::size_t stride, unsigned threads, std::FILE* out,
                    std::FILE* progress) {
  Mutants mutants(out, stride);
  return run_all(source_of(list), threads, mutants, out, progress) && !mutants.has_survivors();
}

}  // namespace cohort::check
