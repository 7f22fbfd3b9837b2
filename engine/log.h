// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

/// How much one has to care. COHORT_DEBUG=error|warn|info|debug|trace says down to which level lines are
/// printed.
enum class LogLevel : std::uint8_t { error, warn, info, debug, trace };

/// Whether lines of this level are printed: for work that only a line needs. Read once per process; default
/// warn.
[[nodiscard]] bool is_logged(LogLevel level) noexcept;

/// The rank in the prefix of this thread's lines. A thread that serves several ranks names none.
void set_log_rank(std::uint32_t rank) noexcept;

/// The line as it is printed: "cohort[rank 3 pid 4121] warn: text", without its end. Control characters
/// become '?', so that no text from outside can forge a line or play with the terminal.
[[nodiscard]] std::string log_line(LogLevel level, std::string_view text);

namespace detail {
void print_log_line(LogLevel level, std::string_view text) noexcept;
}

/// One line to stderr, in one piece. Threads: any. Never throws, never waits for anything but stderr.
template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!is_logged(level)) return;
  try {
    detail::print_log_line(level, fmt::format(format, std::forward<Args>(args)...));
  } catch (...) {  // out of memory: a line is not worth more trouble
  }
}

}  // namespace cohort
