// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/progress_line.h>

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

ProgressLine::ProgressLine(std::FILE* file) : file_(file), is_terminal_(::isatty(::fileno(file)) != 0) {}

bool ProgressLine::is_due() const noexcept {
  return is_terminal_ && std::chrono::steady_clock::now() >= next_;
}

void ProgressLine::show(std::string_view text) {
  if (!is_terminal_) return;
  next_ = std::chrono::steady_clock::now() + kInterval;
  fmt::print(file_, "\r{:{}}", text, width_);
  width_ = text.size();
  std::fflush(file_);
}

void ProgressLine::clear() {
  if (width_ == 0) return;
  fmt::print(file_, "\r{:{}}\r", "", std::exchange(width_, 0));
  std::fflush(file_);
}

}  // namespace cohort
