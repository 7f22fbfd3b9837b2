// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/log.h>

#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/process.h>

#include <array>
#include <cstdio>
#include <optional>

namespace cohort {
namespace {

constexpr std::array<std::string_view, 5> kNames{"error", "warn", "info", "debug", "trace"};

constexpr std::uint64_t kNobody = ~std::uint64_t{0};
constexpr std::uint64_t kSeveral = kNobody - 1;
thread_local constinit std::uint64_t rank_of_thread = kNobody;

std::string_view name_of(LogLevel level) noexcept { return kNames[static_cast<std::size_t>(level)]; }

LogLevel level_from_environment() {
  const std::optional<std::string> asked = environment::text("COHORT_DEBUG");
  if (!asked) return LogLevel::warn;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (*asked == kNames[i]) return static_cast<LogLevel>(i);
  // A wish for more output should not end a job.
  detail::print_log_line(LogLevel::warn,
                         fmt::format("COHORT_DEBUG='{}' is none of error, warn, info, debug, trace", *asked));
  return LogLevel::warn;
}

}  // namespace

bool is_logged(LogLevel level) noexcept {
  static const LogLevel most = level_from_environment();
  return level <= most;
}

void set_log_rank(std::uint32_t rank) noexcept {
  rank_of_thread = rank_of_thread == kNobody || rank_of_thread == rank ? rank : kSeveral;
}

std::string log_line(LogLevel level, std::string_view text) {
  const std::string who = rank_of_thread < kSeveral
                              ? fmt::format("rank {} pid {}", rank_of_thread, current_process())
                              : fmt::format("pid {}", current_process());
  std::string line = fmt::format("cohort[{}] {}: {}", who, name_of(level), text);
  for (char& letter : line)
    if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f') letter = '?';
  return line;
}

void detail::print_log_line(LogLevel level, std::string_view text) noexcept {
  try {
    const std::string line = log_line(level, text) + '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (...) {
  }
}

}  // namespace cohort
