// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/own_program.h>

#include <filesystem>
#include <system_error>

namespace cohort {

std::string own_program(const std::string& as_started) {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failure);
  return failure ? as_started : path.string();
}

}  // namespace cohort
