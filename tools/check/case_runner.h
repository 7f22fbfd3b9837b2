// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/suite.h>
#include <cohort/engine/error.h>
#include <cohort/tools/interruption.h>
#include <cohort/tools/progress_line.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
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

/// Hands out the cases of a source, to any thread.
class CaseQueue {
 public:
  explicit CaseQueue(CaseSource source) : source_(std::move(source)) {}

  struct Taken {
    const Case* one = nullptr;                        ///< null: there are no more
    std::shared_ptr<const std::vector<Case>> list{};  ///< to which it belongs
  };
  [[nodiscard]] Taken take() {
    const std::scoped_lock lock(mutex_);
    if (next_ == list_->size()) {
      list_ = std::make_shared<const std::vector<Case>>(source_());
      next_ = 0;
    }
    if (list_->empty()) return {};
    return {&(*list_)[next_++], list_};
  }

 private:
  std::mutex mutex_;
  CaseSource source_;
  std::shared_ptr<const std::vector<Case>> list_ = std::make_shared<const std::vector<Case>>();
  std::size_t next_ = 0;
};

[[nodiscard]] inline std::size_t count(CaseSource source) {
  std::size_t all = 0;
  for (std::size_t some = source().size(); some != 0; some = source().size()) all += some;
  return all;
}

/// Runs the cases on so many threads, this one among them, and prints their sum to `out`: also that of some,
/// where Ctrl-C says so. Progress is shown only on a terminal. False: not all were run. Throws SystemError
/// where `out` cannot be written.
template <class Report>
[[nodiscard]] bool run_all(const CaseSource& source, unsigned threads, Sum<Report>& sum, std::FILE* out,
                           std::FILE* progress) {
  const Interruption interruption;
  const std::size_t all = count(source);
  ProgressLine line(progress);
  CaseQueue queue(source);
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
    for (CaseQueue::Taken taken = queue.take(); taken.one != nullptr && !Interruption::is_wanted();
         taken = queue.take()) {
      const Case& one = *taken.one;
      const Report report = report_of(one);
      const std::scoped_lock lock(mutex);
      ++done;
      sum.add(one, report, line);
      if (line.is_due())
        line.show(fmt::format("{} of {} cases, {:.0f} %, now of {} ranks, {}", done, all,
                              100.0 * static_cast<double>(done) / static_cast<double>(all), one.options.ranks,
                              sum.state()));
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  line.clear();
  sum.print();
  if (done < all) fmt::print(out, "interrupted: {} of {} cases were run\n", done, all);
  if (std::fflush(out) != 0 || std::ferror(out) != 0) throw system_error(errno, "writing what was checked");
  return done == all;
}

}  // namespace cohort::check
