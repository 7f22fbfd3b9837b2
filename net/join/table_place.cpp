// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/table_place.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/interfaces.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/join/join_options.h>
#include <cohort/net/join/launcher_table.h>
#include <cohort/net/join/rank_table.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

bool is_own(const std::string& host, const std::vector<InterfaceAddress>& own) {
  const Address address =
      Address::parse_numeric(host.find(':') == std::string::npos ? host + ":0" : "[" + host + "]:0");
  return std::ranges::any_of(
      own, [&](const InterfaceAddress& one) { return is_in_network(address, one.address, ~0U); });
}

/// The rank whose host this is, by DEVICE_ID where it has several.
Rank own_rank(const std::vector<TableRank>& ranks, const std::string& path) {
  const std::vector<InterfaceAddress> own = interface_addresses();
  const std::string device = environment::text("DEVICE_ID").value_or("");
  std::vector<Rank> found;
  for (Rank rank = 0; rank < ranks.size(); ++rank)
    if (is_own(ranks[rank].address, own) && (device.empty() || device == ranks[rank].device))
      found.push_back(rank);
  if (found.size() == 1) return found.front();
  throw Error(
      ErrorKind::InvalidArgument,
      fmt::format("the rank table {} has {} ranks at addresses of this host{}: say by COHORT_RANK or RANK_ID "
                  "which one this is",
                  path, found.size(), device.empty() ? "" : fmt::format(" with DEVICE_ID={}", device)));
}

std::optional<std::string> path_of_table() {
  if (auto path = environment::text("COHORT_RANK_TABLE")) return path;
  if (environment::text("RANK_ID")) return environment::text("RANK_TABLE_FILE");
  return std::nullopt;
}

}  // namespace

std::optional<LaunchedPlace> place_by_rank_table() {
  const std::optional<std::string> path = path_of_table();
  if (!path) return std::nullopt;
  const Duration patience = environment::duration("COHORT_JOIN_TIMEOUT").value_or(JoinOptions().timeout);
  const std::vector<TableRank> ranks = await_rank_table(*path, patience);
  LaunchedPlace place;
  place.size = static_cast<Rank>(ranks.size());
  const auto size = environment::text("COHORT_SIZE");
  if (size && *size != std::to_string(place.size))
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("COHORT_SIZE={}, and the rank table {} has {} ranks: leave it out", *size, *path,
                            place.size));
  std::optional<Rank> rank;
  for (const char* const variable : {"COHORT_RANK", "RANK_ID"})
    if (!rank && environment::text(variable))
      rank = static_cast<Rank>(*environment::number(variable, 0, place.size - 1));
  place.rank = rank ? *rank : own_rank(ranks, *path);
  place.launcher = "a rank table";
  std::string all;
  for (const TableRank& one : ranks) all += fmt::format("{} {} {}\n", one.server, one.address, one.device);
  if (!environment::text("COHORT_ADDR")) place.address = meeting_address(ranks.front().address, all);
  return place;
}

}  // namespace cohort
