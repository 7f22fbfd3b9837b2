// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

/// Cuts a rank's output into whole lines, each with a prefix, so that the lines of several ranks can be
/// mixed.
///
/// A line longer than kLongestLine is cut there into several. What has no newline at the end gets one.
class LineBuffer {
 public:
  static constexpr std::size_t kLongestLine = 64 * 1024;

  explicit LineBuffer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Takes bytes in, and gives the lines that they complete. Valid until the next call.
  [[nodiscard]] std::string_view feed(std::string_view bytes);
  /// At the end of the output: what is left.
  [[nodiscard]] std::string_view finish();

 private:
  void end_line(std::string_view last_piece);

  std::string prefix_;
  std::string unfinished_;
  std::string ready_;
};

}  // namespace cohort
