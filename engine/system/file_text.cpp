// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/file_text.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace cohort {

std::optional<std::string> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || text.bad())
    return std::nullopt;  // the kernel has files that refuse to be read
  return text.str();
}

void pause_for(Duration duration) { std::this_thread::sleep_for(duration); }

}  // namespace cohort
