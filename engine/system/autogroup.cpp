// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/autogroup.h>

#include <cohort/engine/system/file_text.h>

#include <fmt/format.h>

#include <optional>

namespace cohort {

std::string autogroup_of(std::uint32_t process) {
  const std::optional<std::string> are_used = file_text("/proc/sys/kernel/sched_autogroup_enabled");
  if (!are_used || !are_used->starts_with('1')) return {};
  const std::optional<std::string> text = file_text(fmt::format("/proc/{}/autogroup", process));
  return text ? text->substr(0, text->find(' ')) : std::string();
}

}  // namespace cohort
