// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/rank_table.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/address.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/file_text.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostTableRanks = 65536;
constexpr Duration kTableLookInterval = std::chrono::milliseconds(250);
constexpr Duration kTableReportInterval = std::chrono::seconds(10);

/// One table, which is refused by the place in it.
class Table {
 public:
  explicit Table(std::string_view source) : source_(source) {}

  [[noreturn]] void refuse(const std::string& path, std::string_view why) const {
    throw Error(ErrorKind::InvalidArgument, fmt::format("the rank table {} at {}: {}", source_, path, why));
  }
  const Json& member(const Json& object, const std::string& path, const char* name) const {
    if (!object.is_object()) refuse(path, "an object belongs there");
    const auto found = object.find(name);
    if (found == object.end()) refuse(fmt::format("{}.{}", path, name), "it is missing");
    return *found;
  }
  std::string text(const Json& object, const std::string& path, const char* name) const {
    const Json& value = member(object, path, name);
    if (!value.is_string()) refuse(fmt::format("{}.{}", path, name), "a string belongs there");
    return value.get<std::string>();
  }
  /// As a string of digits; numbers of JSON are let pass.
  std::size_t number(const Json& object, const std::string& path, const char* name) const {
    const Json& value = member(object, path, name);
    const std::string digits = value.is_string() ? value.get<std::string>() : value.dump();
    std::size_t result = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    if (failure != std::errc{} || end != digits.data() + digits.size() || result >= kMostTableRanks)
      refuse(fmt::format("{}.{}", path, name),
             fmt::format("'{}' is no number from 0 to {}", digits, kMostTableRanks - 1));
    return result;
  }
  const Json& list(const Json& object, const std::string& path, const char* name) const {
    const Json& value = member(object, path, name);
    if (!value.is_array() || value.empty()) refuse(fmt::format("{}.{}", path, name), "a list belongs there");
    return value;
  }
  std::string address(const Json& object, const std::string& path, const char* name) const {
    const std::string host = text(object, path, name);
    try {
      (void)Address::parse_numeric(host.find(':') == std::string::npos ? host + ":0" : "[" + host + "]:0");
    } catch (const Error&) {
      refuse(fmt::format("{}.{}", path, name), fmt::format("'{}' is no address in numbers", host));
    }
    return host;
  }

 private:
  const std::string_view source_;
};

struct Numbered {
  std::size_t rank;
  std::string path;
  TableRank where;
};

constexpr std::array kHostAddresses = {"server_ip", "container_ip", "host_ip"};

bool has_address(const Json& server) {
  return std::ranges::any_of(kHostAddresses, [&](const char* name) { return server.contains(name); });
}

/// An address of the host goes before one of a device, which may be of another network.
std::string address_of(const Table& table, const Json& server, const std::string& path, const Json& device,
                       const std::string& device_path) {
  for (const char* const name : kHostAddresses)
    if (server.contains(name)) return table.address(server, path, name);
  return table.address(device, device_path, "device_ip");
}

void add_server(const Table& table, const Json& server, const std::string& path,
                std::vector<Numbered>& ranks) {
  const std::string name = table.text(server, path, "server_id");
  const Json& devices = table.list(server, path, "device");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string device_path = fmt::format("{}.device[{}]", path, i);
    TableRank where;
    where.server = name;
    where.device = table.text(devices[i], device_path, "device_id");
    where.is_of_device = !has_address(server);
    where.address = address_of(table, server, path, devices[i], device_path);
    ranks.push_back({table.number(devices[i], device_path, "rank_id"), device_path, std::move(where)});
  }
}

std::vector<TableRank> in_order(const Table& table, std::vector<Numbered> ranks) {
  std::ranges::stable_sort(ranks, {}, &Numbered::rank);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0 && ranks[i].rank == ranks[i - 1].rank)
      table.refuse(ranks[i].path + ".rank_id",
                   fmt::format("rank {} is at {}, too", ranks[i].rank, ranks[i - 1].path));
    if (ranks[i].rank != i)
      table.refuse(ranks[i].path + ".rank_id", fmt::format("rank {} of {} is missing, and this is rank {}", i,
                                                           ranks.size(), ranks[i].rank));
  }
  std::vector<TableRank> result;
  for (Numbered& one : ranks) result.push_back(std::move(one.where));
  return result;
}

}  // namespace

std::optional<std::vector<TableRank>> parse_rank_table(std::string_view text, std::string_view source) {
  const Table table(source);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) table.refuse("$", "it is no JSON");
  if (table.text(json, "$", "status") != "completed") return std::nullopt;
  const Json& servers = table.list(json, "$", "server_list");
  if (json.contains("server_count") && table.number(json, "$", "server_count") != servers.size())
    table.refuse("$.server_count", fmt::format("it says {}, and server_list has {}",
                                               json["server_count"].dump(), servers.size()));
  std::vector<Numbered> ranks;
  for (std::size_t i = 0; i < servers.size(); ++i)
    add_server(table, servers[i], fmt::format("$.server_list[{}]", i), ranks);
  return in_order(table, std::move(ranks));
}

std::vector<TableRank> await_rank_table(const std::string& path, Duration patience) {
  std::string why = "it is not there";
  for (Duration waited{}; waited <= patience; waited += kTableLookInterval) {
    const std::optional<std::string> text = file_text(path);
    if (text && !text->empty()) {
      std::optional<std::vector<TableRank>> ranks;
      try {
        ranks = parse_rank_table(*text, path);
        if (ranks) return *ranks;
        why = "its status is not \"completed\"";
      } catch (const Error& error) {
        // Half of it, as long as it is being written.
        if (error.message().find(" at $: it is no JSON") == std::string_view::npos) throw;
        why = "it is no JSON";
      }
    }
    if (waited > Duration::zero() && waited % kTableReportInterval == Duration::zero())
      log(LogLevel::warn, "waiting for the rank table {} for {} s: {}", path,
          std::chrono::duration_cast<std::chrono::seconds>(waited).count(), why);
    pause_for(kTableLookInterval);
  }
  throw Error(ErrorKind::MissingRanks,
              fmt::format("the rank table {} was not completed in time: {}", path, why));
}

}  // namespace cohort
