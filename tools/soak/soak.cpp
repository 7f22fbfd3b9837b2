// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/soak.h>

#include <cohort/tools/interruption.h>
#include <cohort/tools/progress_line.h>
#include <cohort/tools/soak/description.h>
#include <cohort/tools/soak/verdict.h>

#include <fmt/format.h>

#include <chrono>
#include <memory>

namespace cohort::soak {
namespace {

constexpr std::uint64_t kJobsBetweenRepeats = 16;
constexpr std::uint64_t kMostFailures = 10;

class Soak {
 public:
  Soak(const SoakOptions& options, std::FILE* out, std::FILE* progress)
      : options_(options), out_(out), line_(progress) {}

  bool run() {
    const Interruption interruption;
    for (; done_ < options_.jobs && failed_ < kMostFailures && !is_lost_ && !Interruption::is_wanted();
         ++done_) {
      run_seed(options_.first_seed + done_);
      if (line_.is_due()) line_.show(progress());
    }
    line_.clear();
    fmt::print(
        out_, "seeds {} to {}, {:.0f} jobs a minute; {} with faults, of which {} met calls under way\n",
        options_.first_seed, options_.first_seed + done_ - (done_ == 0 ? 0 : 1), rate(), faulty_, felt_);
    fmt::print(out_, "{} passed, {} failed\n", done_ - failed_, failed_);
    if (Interruption::is_wanted())
      fmt::print(out_, "interrupted: {} of {} jobs were run; go on with --seed {}\n", done_, options_.jobs,
                 options_.first_seed + done_);
    std::fflush(out_);
    return failed_ == 0;
  }

 private:
  void run_seed(std::uint64_t seed) {
    const Job job = job_of(seed);
    if (options_.prints_jobs) line_.clear();
    if (options_.prints_jobs) fmt::print(out_, "seed {}: {}", seed, describe(job));
    JobReport report = run_job(job);
    faulty_ += job.may_fail() ? 1 : 0;
    felt_ += job.may_fail() && report.has_failed ? 1 : 0;
    is_lost_ = report.is_process_lost;
    if (done_ % kJobsBetweenRepeats == 0 && report.complaints.empty()) {
      const JobReport again = run_job(job);
      if (again.hash != report.hash)
        report.complaints.emplace_back("the same seed went another way the second time");
    }
    if (report.complaints.empty()) return;
    ++failed_;
    line_.clear();
    fmt::print(out_, "FAILED seed {}: {}", seed, describe(job));
    for (const std::string& complaint : report.complaints) fmt::print(out_, "  - {}\n", complaint);
    fmt::print(out_, "  again: cohort soak --seed {} --jobs 1 --trace{}\n", seed,
               options_.topology ? " --topology (the same)" : "");
    std::fflush(out_);
  }

  [[nodiscard]] Job job_of(std::uint64_t seed) const {
    Job job = options_.topology ? draw_job(seed, *options_.topology) : draw_job(seed);
    job.world.prints_trace = options_.prints_trace;
    job.planted = options_.planted;
    return job;
  }

  [[nodiscard]] double rate() const {
    const std::chrono::duration<double, std::ratio<60>> minutes = std::chrono::steady_clock::now() - started_;
    return static_cast<double>(done_) / minutes.count();
  }

  [[nodiscard]] std::string progress() const {
    constexpr std::uint64_t kWidth = 30;
    const std::uint64_t filled = kWidth * (done_ + 1) / options_.jobs;
    return fmt::format("[{:#<{}}{:.<{}}] {} of {} jobs, {} failed, {:.0f} a minute", "", filled, "",
                       kWidth - filled, done_ + 1, options_.jobs, failed_, rate());
  }

  const SoakOptions options_;
  std::FILE* const out_;
  ProgressLine line_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::uint64_t done_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t faulty_ = 0;
  std::uint64_t felt_ = 0;
  bool is_lost_ = false;
};

}  // namespace

JobReport run_job(Job job) {
  const auto run = std::make_shared<JobRun>(std::move(job));
  JobReport report;
  report.is_process_lost = !run->run();
  report.complaints = judge(*run);
  report.hash = run->world().hash();
  report.has_failed = has_failures(*run);
  return report;
}

bool run_jobs(const SoakOptions& options, std::FILE* out, std::FILE* progress) {
  return Soak(options, out, progress).run();
}

}  // namespace cohort::soak
