// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/net/rank.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// A rank of a table.
struct TableRank {
  std::string server;         ///< its host, as the table calls it
  std::string address;        ///< of its host, in numbers
  bool is_of_device = false;  ///< the address, since the table has none of the host
  std::string device;         ///< of its host
};

/// A rank table, JSON as schedulers of accelerators write it: `server_list[]` of hosts with `device[]`, each
/// of which is a rank. Numbers are strings. Nothing: its `status` is not "completed" yet.
///
/// Throws InvalidArgument with the place in the file: rank numbers that are none, double or left out,
/// addresses that are none, counts that do not agree.
[[nodiscard]] std::optional<std::vector<TableRank>> parse_rank_table(std::string_view text,
                                                                     std::string_view source);

/// Reads the file until it is completed. Throws as above; MissingRanks when it is not within `patience`.
[[nodiscard]] std::vector<TableRank> await_rank_table(const std::string& path, Duration patience);

}  // namespace cohort
