// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// Figures that processes of a user have measured on this host, kept in a file for those that come later.
///
/// Nothing depends on it: whatever is wrong with the file, that it is not there, belongs to somebody else, is
/// damaged or cannot be written, is as if nothing were kept. A line holds when it was measured, a key, and
/// the numbers. Several processes may use one file: each replaces it as a whole, and the last one wins.
///
/// Threads: any. Costs a few system calls each time.
class FigureCache {
 public:
  using Moment = std::chrono::system_clock::time_point;

  static constexpr std::size_t kMostFigures = 512;  ///< of one key
  static constexpr std::size_t kMostKeys = 64;      ///< the latest
  static constexpr double kLargest = 1e9;
  static constexpr std::chrono::hours kMostAge{24 * 7};

  /// Keeps nothing.
  FigureCache() = default;
  /// That file. `refreshes`: it is written, but what it holds is not looked at.
  explicit FigureCache(std::string path, bool refreshes = false)
      : path_(std::move(path)), refreshes_(refreshes) {}
  /// COHORT_CACHE: a path; "on": cohort/figures in XDG_CACHE_HOME or in .cache of HOME, where one of them is;
  /// "off", or unset: none. COHORT_CACHE_REFRESH: 1. Throws InvalidArgument for anything else.
  static FigureCache from_environment();

  [[nodiscard]] bool is_on() const noexcept { return !path_.empty(); }
  /// What was kept under that key, 0 to kLargest each, and is not older than that; empty if nothing is.
  [[nodiscard]] std::vector<double> find(std::string_view key, std::chrono::hours most_age = kMostAge) const;
  /// Keeps these in place of what there was. Not on a host that has been busy: they would tell of others.
  void keep(std::string_view key, std::span<const double> figures) const;
  /// The same whatever the host does, measured then.
  void keep_from(Moment when, std::string_view key, std::span<const double> figures) const;

 private:
  std::string path_;
  bool refreshes_ = false;
};

}  // namespace cohort
