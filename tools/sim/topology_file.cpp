// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/sim/topology_file.h>

#include <cohort/collectives/machines/sim/library_links.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

namespace cohort::sim {
namespace {

using nlohmann::json;

/// The members of one object; each is asked for once, and none may be left over.
class Members {
 public:
  Members(const json& object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object.is_object()) throw Error(ErrorKind::InvalidArgument, name_ + ": an object {...} is expected");
  }

  void read(const char* member, double& value) { read(member, value, &json::is_number, "a number"); }
  void read(const char* member, bool& value) { read(member, value, &json::is_boolean, "true or false"); }
  template <std::unsigned_integral T>
  void read(const char* member, T& value) {
    read(member, value, &json::is_number_unsigned, "a count");
  }
  /// An object, or a list of them, that read_members() knows.
  template <class T>
  void read(const char* member, T& object) {
    if (const json* const found = find(member); found != nullptr)
      read(*found, fmt::format("{}: {}", name_, member), object);
  }
  template <class T>
  void read(const char* member, std::vector<T>& list) {
    const json* const found = find(member);
    if (found == nullptr) return;
    if (!found->is_array())
      throw Error(ErrorKind::InvalidArgument, fmt::format("{}: {}: a list [...] is expected", name_, member));
    for (const json& item : *found) {
      const std::string name = fmt::format("{}: {}[{}]", name_, member, list.size());
      read(item, name, list.emplace_back());
    }
  }
  static void read(const json& item, const std::string& name, Rank& into) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > std::numeric_limits<Rank>::max())
      throw Error(ErrorKind::InvalidArgument,
                  fmt::format("{} is {}; a count is expected", name, item.dump()));
    into = item.get<Rank>();
  }
  template <class T>
  static void read(const json& object, const std::string& name, T& into) {
    Members members(object, name);
    read_members(members, into);
    members.end();
  }
  void end() const {
    for (const auto& item : object_.items())
      if (!known_.contains(item.key()))
        throw Error(ErrorKind::InvalidArgument, fmt::format("{}: {} is unknown", name_, item.key()));
  }

 private:
  template <class T>
  void read(const char* member, T& value, bool (json::*is_right)() const noexcept, const char* expected) {
    const json* const found = find(member);
    if (found == nullptr) return;
    if (!(found->*is_right)())
      throw Error(ErrorKind::InvalidArgument,
                  fmt::format("{}: {} is {}; {} is expected", name_, member, found->dump(), expected));
    value = found->get<T>();
  }
  const json* find(const char* member) {
    known_.insert(member);
    const auto found = object_.find(member);
    return found == object_.end() ? nullptr : &*found;
  }

  const json& object_;
  const std::string name_;
  std::set<std::string> known_;
};

void read_members(Members& one, SlowRank& slow) {
  one.read("rank", slow.rank);
  one.read("factor", slow.factor);
}
void read_members(Members& one, DegradedLink& link) {
  one.read("from", link.from);
  one.read("to", link.to);
  one.read("bandwidth_factor", link.bandwidth_factor);
  one.read("latency_factor", link.latency_factor);
}
void read_members(Members& one, LostLink& link) {
  one.read("from", link.from);
  one.read("to", link.to);
  one.read("step", link.step);
  one.read("at_ns", link.at_ns);
}
void read_members(Members& one, LateRank& late) {
  one.read("rank", late.rank);
  one.read("by_ns", late.by_ns);
}
void read_members(Members& one, DeadRank& dead) {
  one.read("rank", dead.rank);
  one.read("step", dead.step);
}
void read_members(Members& one, CancelledOperation& cancelled) {
  one.read("rank", cancelled.rank);
  one.read("step", cancelled.step);
}

void read_members(Members& members, Faults& faults) {
  members.read("slow_ranks", faults.slow_ranks);
  members.read("late_ranks", faults.late_ranks);
  members.read("degraded_links", faults.degraded_links);
  members.read("lost_links", faults.lost_links);
  members.read("dead_ranks", faults.dead_ranks);
  members.read("cancelled_operations", faults.cancelled_operations);
}

void read_members(Members& members, LinkSpeed& speed) {
  members.read("latency_ns", speed.latency_ns);
  members.read("gigabytes_per_second", speed.gigabytes_per_second);
  members.read("message_ns", speed.message_ns);
  members.read("gap_ns", speed.gap_ns);
  members.read("core_gigabytes_per_second", speed.core_gigabytes_per_second);
  members.read("header_bytes", speed.header_bytes);
}

void read_members(Members& members, Topology& topology) {
  members.read("ranks_per_host", topology.ranks_per_host);
  members.read("ranks_of_hosts", topology.ranks_of_hosts);
  members.read("cores_per_host", topology.cores_per_host);
  members.read("shared_memory", topology.has_shared_memory);
  if (!topology.has_shared_memory) topology.inside = over_tcp(topology.inside);
  members.read("rails", topology.rails);
  members.read("hosts_per_switch", topology.hosts_per_switch);
  members.read("oversubscription", topology.oversubscription);
  members.read("inside", topology.inside);
  members.read("network", topology.network);
  members.read("switch_latency_ns", topology.switch_latency_ns);
  members.read("cache_bytes", topology.cache_bytes);
  members.read("core_switch_ns", topology.core_switch_ns);
  members.read("copy_gigabytes_per_second", topology.copy_gigabytes_per_second);
  members.read("reduce_gigabytes_per_second", topology.reduce_gigabytes_per_second);
  members.read("faults", topology.faults);
}

}  // namespace

Topology parse_topology(const std::string& text, const std::string& name) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::parse_error& error) {
    const std::string_view what =
        error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{}: is no JSON: {}; docs/simulate.md has an example", name,
                            what.substr(std::min(what.size(), what.find("] ") + 2))));
  }
  Topology topology = library_topology();
  Members::read(object, name, topology);
  return topology;
}

Topology read_topology(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  int failure = file ? 0 : errno;
  std::error_code unknown;  // then it cannot be opened either
  if (std::filesystem::is_directory(path, unknown)) failure = EISDIR;
  if (!file || failure != 0)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{}: cannot be read: {}; give the path of a topology file", path,
                            std::system_category().message(failure)));
  std::stringstream text;
  text << file.rdbuf();
  return parse_topology(text.str(), path);
}

}  // namespace cohort::sim
