// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/join/launcher.h>

#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// By COHORT_RANK_TABLE, or RANK_TABLE_FILE together with RANK_ID: waits until the table is completed. The
/// rank is COHORT_RANK or RANK_ID, else that of the only device of this host. Nothing where there is no
/// table.
///
/// Throws what await_rank_table() throws, and InvalidArgument for a rank that is none of the table.
[[nodiscard]] std::optional<LaunchedPlace> place_by_rank_table();

/// Where ranks meet that know a host of rank 0 and nothing more: a port that is the same for all who know
/// `start`, of COHORT_PORT_RANGE or 29400 to 29899.
[[nodiscard]] std::string meeting_address(const std::string& host, std::string_view start);

}  // namespace cohort
