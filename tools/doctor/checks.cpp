// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/doctor/checks.h>

#include <cohort/engine/system/file_text.h>

#include <fmt/format.h>

#include <charconv>

namespace cohort::doctor {

std::optional<std::string> first_line(const std::string& path) {
  const std::optional<std::string> text = file_text(path);
  if (!text) return std::nullopt;
  return text->substr(0, text->find('\n'));
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  const std::optional<std::string> line = first_line(path);
  std::uint64_t value = 0;
  if (!line || std::from_chars(line->data(), line->data() + line->size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

std::string in_units(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kStep = 1024;
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= kStep && unit + 1 < std::size(kUnits); ++unit) value /= kStep;
  return fmt::format("{:.{}f} {}", value, value < 10 && unit > 0 ? 1 : 0, kUnits[unit]);
}

Findings check_host() {
  Findings findings;
  check_kernel(findings);
  check_limits(findings);
  check_cgroups(findings);
  check_memory(findings);
  check_cores(findings);
  check_network(findings);
  check_way_to_rank_0(findings);
  check_settings(findings);
  return findings;
}

}  // namespace cohort::doctor
