// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/ancestry.h>

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

namespace cohort {
namespace {

std::optional<std::string> contents_of(int process, std::string_view file) {
  std::ifstream in(fmt::format("/proc/{}/{}", process, file), std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.is_open() || in.bad() || text.empty()) return std::nullopt;
  return text;
}

bool has_variable(const std::string& environment, std::string_view name) {
  std::istringstream entries(environment);
  for (std::string entry; std::getline(entries, entry, '\0');)
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) return true;
  return false;
}

/// The fields of /proc/PID/stat behind the name, which may hold anything (proc(5)): the first is the state.
std::vector<std::string> fields_of(const std::string& stat) {
  const std::size_t end = stat.rfind(')');
  std::istringstream words(end == std::string::npos ? "" : stat.substr(end + 1));
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

}  // namespace

std::string ancestor_without(std::string_view variable) {
  constexpr std::size_t kParent = 1;
  constexpr std::size_t kStart = 19;
  int process = ::getppid();
  while (process > 1) {
    const std::optional<std::string> environment = contents_of(process, "environ");
    const std::optional<std::string> stat = contents_of(process, "stat");
    if (!environment || !stat) break;
    const std::vector<std::string> fields = fields_of(*stat);
    if (fields.size() <= kStart) break;
    if (!has_variable(*environment, variable)) return fmt::format("{}@{}", process, fields[kStart]);
    process = std::stoi(fields[kParent]);
  }
  return std::to_string(process);
}

}  // namespace cohort
