// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cohort {

/// How a collective reaches the user windows of peers on this host.
enum class UserWindows : std::uint8_t {
  staged,    ///< not at all: data passes through the CCL buffers
  readable,  ///< the kernel copies between processes: pull(), push()
  mapped,    ///< loads and stores: copies and reductions may name them, too
};

/// "private", "readable", "mapped": what the caller's memory is to peers.
[[nodiscard]] constexpr std::string_view to_string(UserWindows windows) noexcept {
  constexpr std::string_view kNames[] = {"private", "readable", "mapped"};
  return kNames[static_cast<std::size_t>(windows)];
}

}  // namespace cohort
