// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/soak/job.h>

#include <cstddef>
#include <vector>

namespace cohort::soak {

/// What a message from this rank holds: other bytes for other ranks and tags.
[[nodiscard]] std::vector<std::byte> contents(const MessagePlan& message, Rank from);

}  // namespace cohort::soak
