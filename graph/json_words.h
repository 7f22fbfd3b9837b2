// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string_view>

namespace cohort {

/// What an exception of nlohmann-json says, without the "[json.exception.parse_error.101] " that it begins
/// with. Lifetime: the exception's.
[[nodiscard]] inline std::string_view words_of_json(const std::exception& error) noexcept {
  const std::string_view what = error.what();
  const std::size_t end = what.find("] ");
  return end == std::string_view::npos ? what : what.substr(end + 2);
}

}  // namespace cohort
