// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/membership.h>
#include <cohort/tools/bench/chart.h>
#include <cohort/tools/bench/measurement.h>

#include <string>

namespace cohort::bench {

/// A line that says of which version this is, and which ranks are where.
[[nodiscard]] std::string place_of(const Membership& membership);

/// Writes results as text: the table of nccl-tests, the rows that bench/suite reads, or a JSON object
/// a line.
class Report {
 public:
  Report(const Options& options, std::string transport);

  /// Before the first point of an exercise.
  [[nodiscard]] std::string begin(Exercise exercise);
  [[nodiscard]] std::string row(const Result& result);
  /// After its last one.
  [[nodiscard]] std::string end();

  /// Of all exercises so far.
  [[nodiscard]] const std::vector<MeasuredCurve>& curves() const noexcept { return curves_; }
  [[nodiscard]] std::uint64_t total_wrong() const noexcept { return all_wrong_; }
  /// "shm", "tcp-threads", ...: as it stands in rows.
  [[nodiscard]] const std::string& label() const noexcept { return label_; }

 private:
  [[nodiscard]] std::string csv_head() const;
  [[nodiscard]] std::string table_row(const Result& result) const;
  [[nodiscard]] std::string csv_row(const Result& result) const;
  [[nodiscard]] std::string json_row(const Result& result) const;
  [[nodiscard]] std::string root_of(Exercise exercise) const;
  [[nodiscard]] std::string_view reduction_of(Exercise exercise) const;
  [[nodiscard]] std::string_view type_of(Exercise exercise) const;
  /// Whether wrong results are counted: who has entered a barrier is seen in memory that all ranks map.
  [[nodiscard]] bool is_checked(Exercise exercise) const;

  const Options& options_;
  const std::string transport_;
  const std::string label_;
  bool has_begun_ = false;
  std::uint64_t all_wrong_ = 0;
  // Of the current exercise.
  std::uint64_t wrong_ = 0;
  double bus_gb_per_s_ = 0;
  std::size_t rows_ = 0;
  std::vector<MeasuredCurve> curves_;
};

}  // namespace cohort::bench
