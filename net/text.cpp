// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/text.h>

#include <fmt/format.h>

namespace cohort {

std::string shortened(std::string_view text, std::size_t most, std::string_view rest) {
  if (text.size() <= most) return std::string(text);
  const std::string end = fmt::format("... ({})", rest);
  if (end.size() >= most) return std::string(text.substr(0, most));
  std::string_view kept = text.substr(0, most - end.size());
  const std::size_t blank = text[kept.size()] == ' ' ? kept.size() : kept.rfind(' ');
  if (blank != std::string_view::npos && blank != 0) kept = kept.substr(0, blank);
  return std::string(kept) + end;
}

}  // namespace cohort
