// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <optional>
#include <string>

namespace cohort {

/// All of a file; nothing if it cannot be read. Threads: any; blocks, so before the engine runs.
[[nodiscard]] std::optional<std::string> file_text(const std::string& path);

/// Sleeps: for what looks for a file again and again before the engine runs.
void pause_for(Duration duration);

}  // namespace cohort
