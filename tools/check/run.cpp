// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/check/run.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tools/check/case_runner.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

namespace cohort::check {
namespace {

/// Failures that are printed in full; the rest only count.
constexpr std::size_t kMostPrinted = 20;
constexpr std::size_t kMostFindingsEach = 4;

/// What is proved of one algorithm, over all of its cases.
struct Certificate {
  std::string_view name;
  std::size_t cases = 0;
  std::size_t failed = 0;
  std::size_t tasks = 0;
  bool combines_in_rank_order = true;
  bool combines_at_once = true;
  std::string example;  ///< of another order, by the fewest ranks that show it
  Rank example_ranks = 0;
  Rank largest = 0;  ///< ranks whose costs are shown
  Counted counted;   ///< of the case with most ranks whose message is cut evenly into one piece
};

using Key = std::tuple<Operator, std::size_t, UserWindows>;  ///< the second: its place in the table

class Certificates final : public Sum<Report> {
 public:
  explicit Certificates(std::FILE* out) : out_(out) {}

  [[nodiscard]] Report run(const Case& one) const override { return check::run(one); }
  /// What cannot be checked has failed.
  [[nodiscard]] Report not_run(const Case&, const std::exception& why) const override {
    Report report;
    Finding finding;
    finding.kind = FindingKind::failure;
    finding.text = fmt::format("could not be checked: {}", why.what());
    report.findings.push_back(finding);
    return report;
  }

  void add(const Case& one, const Report& report, ProgressLine& line) override {
    ++done_;
    const auto place =
        static_cast<std::size_t>(one.algorithm - AlgorithmTable::library().of(one.op()).data());
    Certificate& of = certificates_[{one.op(), place, one.options.user_windows}];
    of.name = one.algorithm->name();
    ++of.cases;
    of.tasks += report.tasks;
    if (!report.passed()) {
      ++of.failed;
      line.clear();
      if (failed_++ < kMostPrinted) print_failure(one, report);
    }
    note_order(of, one, report);
    note_costs(of, one, report);
  }

  [[nodiscard]] std::string state() const override { return fmt::format("{} failed", failed_); }
  [[nodiscard]] std::size_t failed() const noexcept { return failed_; }

  void print() override {
    print_table();
    fmt::print(out_, "{} passed, {} failed\n", done_ - failed_, failed_);
  }

 private:
  void print_failure(const Case& one, const Report& report) {
    fmt::print(out_, "FAILED {}\n", describe(one));
    for (std::size_t i = 0; i < std::min(report.findings.size(), kMostFindingsEach); ++i)
      fmt::print(out_, "  {}: {}\n", to_string(report.findings[i].kind), report.findings[i].text);
    if (report.findings.size() > kMostFindingsEach)
      fmt::print(out_, "  and {} more\n", report.findings.size() - kMostFindingsEach);
  }

  static void note_order(Certificate& of, const Case& one, const Report& report) {
    of.combines_at_once = of.combines_at_once && report.combines_at_once;
    if (report.combines_in_rank_order) return;
    of.combines_in_rank_order = false;
    if (!of.example.empty() && of.example_ranks <= one.options.ranks) return;
    of.example = report.example_of_order;
    of.example_ranks = one.options.ranks;
  }

  static void note_costs(Certificate& of, const Case& one, const Report& report) {
    const bool is_even = one.options.count == kEvenPerRank * one.options.ranks || !one.op()->has_data;
    if (!is_even || one.options.ranks < of.largest) return;
    of.largest = one.options.ranks;
    of.counted = report.counted;
  }

  void print_table() {
    fmt::print(out_, "{:<18}{:<20}{:<10}{:>7}{:>8}{:>8}{:>9}  {}\n", "operator", "algorithm", "memory",
               "cases", "failed", "rounds", "volume", "order of combination");
    for (const auto& [key, of] : certificates_) {
      const auto& [op, place, windows] = key;
      const std::string volume =
          of.counted.least_to_all == 0
              ? "-"
              : fmt::format("{:.2f}", static_cast<double>(of.counted.bytes_to_all) /
                                          static_cast<double>(of.counted.least_to_all));
      fmt::print(out_, "{:<18}{:<20}{:<10}{:>7}{:>8}{:>8}{:>9}  {}\n", to_string(op), of.name,
                 to_string(windows), of.cases, of.failed, rounds_of(of), volume, order_of(op, of));
    }
    fmt::print(
        out_,
        "rounds: messages that follow one another, with most ranks / the least with as many messages each\n"
        "volume: bytes that all ranks get / the least of any algorithm\n");
  }

  static std::string rounds_of(const Certificate& of) {
    if (of.largest == 0) return "-";
    return fmt::format("{}/{}", of.counted.rounds, std::max(1U, of.counted.least_rounds));
  }

  static std::string order_of(Operator op, const Certificate& of) {
    if (!op->combines) return "-";
    if (of.combines_in_rank_order)
      return fmt::format("D3: ((0 + 1) + 2) + ..., everywhere{}",
                         of.combines_at_once ? ", rounded once" : "; D1 where partial sums are rounded");
    return fmt::format("D1: fixed; with {} ranks, {}", of.example_ranks, of.example);
  }

  std::FILE* const out_;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::map<Key, Certificate> certificates_;
};

}  // namespace

std::vector<std::size_t> parse_numbers(const std::string& what, const std::string& text, std::size_t least,
                                       std::size_t most) {
  std::vector<std::size_t> numbers;
  if (text.empty()) (void)environment::parse_number(what, text, least, most);  // refuses it
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const bool is_range = dash != std::string::npos && dash != 0 && dash + 1 != part.size();  // not "-4"
    const std::size_t first =
        environment::parse_number(what, is_range ? part.substr(0, dash) : part, least, most);
    const std::size_t last =
        !is_range ? first : environment::parse_number(what, part.substr(dash + 1), least, most);
    if (last < first)
      throw Error(ErrorKind::InvalidArgument,
                  fmt::format("'{}' ends before it begins; write {}-{}", part, last, first));
    for (std::size_t number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

bool run_cases(const CaseSource& source, unsigned threads, std::FILE* out, std::FILE* progress) {
  Certificates certificates(out);
  return run_all(source, threads, certificates, out, progress) && certificates.failed() == 0;
}

}  // namespace cohort::check
