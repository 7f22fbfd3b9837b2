// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/abi.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace cohort::mpi {

/// Gives a program as much of a text as there is room for, and its end.
inline void give_text(std::string_view text, int room, char* to, int* length) {
  const std::size_t size = std::min(text.size(), static_cast<std::size_t>(room) - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
  *length = static_cast<int>(size);
}
inline void give_name(std::string_view name, char* to, int* length) {
  give_text(name, abi::kMostObjectName, to, length);
}

}  // namespace cohort::mpi
