// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/print.h>

#include <cohort/engine/error.h>

#include <cerrno>
#include <cstdio>

namespace cohort {

void print(const std::string& text) {
  const bool is_out = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!is_out) throw system_error(errno, "writing results to standard output");
}

}  // namespace cohort
