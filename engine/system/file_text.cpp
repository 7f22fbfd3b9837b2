// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/file_text.h>

#include <fstream>
#include <iterator>
#include <thread>

namespace cohort {

std::optional<std::string> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) return std::nullopt;
  return text;
}

void pause_for(Duration duration) { std::this_thread::sleep_for(duration); }

}  // namespace cohort
