// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/suite.h>
#include <cohort/engine/error.h>
#include <cohort/tools/progress_line.h>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace cohort::check {

/// What comes of all cases together, and prints it.
template <class Report>
class Sum {
 public:
  virtual ~Sum() = default;

  /// On any thread, several at a time.
  [[nodiscard]] virtual Report run(const Case& one) const = 0;
  /// What counts for a case that could not be run.
  [[nodiscard]] virtual Report not_run(const Case& one, const std::exception& why) const = 0;
  /// One at a time. `line` is to be cleared before anything is printed.
  virtual void add(const Case& one, const Report& report, ProgressLine& line) = 0;
  /// "3 failed".
  [[nodiscard]] virtual std::string state() const = 0;
  virtual void print() = 0;
};

/// Runs the cases on so many threads, this one among them, and prints their sum to `out`. Progress is shown
/// only on a terminal. Throws SystemError where `out` cannot be written.
template <class Report>
void run_list(const std::vector<Case>& list, unsigned threads, Sum<Report>& sum, std::FILE* out,
              std::FILE* progress) {
  ProgressLine line(progress);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  const auto report_of = [&sum](const Case& one) {  // nothing leaves a thread
    try {
      return sum.run(one);
    } catch (const std::exception& error) {
      return sum.not_run(one, error);
    }
  };
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < list.size(); i = next.fetch_add(1)) {
      const Report report = report_of(list[i]);
      const std::scoped_lock lock(mutex);
      ++done;
      sum.add(list[i], report, line);
      if (line.is_due()) line.show(fmt::format("{} of {} cases, {}", done, list.size(), sum.state()));
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  line.clear();
  sum.print();
  if (std::fflush(out) != 0 || std::ferror(out) != 0) throw system_error(errno, "writing what was checked");
}

}  // namespace cohort::check
