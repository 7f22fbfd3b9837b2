// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/failure.h>

#include <fmt/format.h>

#include <utility>

namespace cohort {

/// ProtocolError in these words, or out_of_memory() where there is none for them.
template <class... Values>
[[nodiscard]] Error protocol_error(fmt::format_string<Values...> words, Values&&... values) noexcept {
  return error_unless_out_of_memory(
      [&] { return Error(ErrorKind::ProtocolError, fmt::format(words, std::forward<Values>(values)...)); });
}

}  // namespace cohort
