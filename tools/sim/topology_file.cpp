// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/sim/topology_file.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace cohort::sim {
namespace {

using nlohmann::json;

/// The members of one object; each is asked for once, and none may be left over.
class Members {
 public:
  Members(const json& object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object.is_object()) throw Error(ErrorKind::InvalidArgument, name_ + ": an object {...} is expected");
  }

  template <class T>
  void read(const char* member, T& value) {
    const json* const found = find(member);
    if (found == nullptr) return;
    const bool is_right = std::is_floating_point_v<T> ? found->is_number() : found->is_number_unsigned();
    if (!is_right)
      throw Error(ErrorKind::InvalidArgument,
                  fmt::format("{}: {} is {}; a {} is expected", name_, member, found->dump(),
                              std::is_floating_point_v<T> ? "number" : "count"));
    value = found->get<T>();
  }
  void read(const char* member, LinkSpeed& speed) {
    const json* const found = find(member);
    if (found == nullptr) return;
    Members members(*found, name_ + ": " + member);
    members.read("latency_ns", speed.latency_ns);
    members.read("gigabytes_per_second", speed.gigabytes_per_second);
    members.end();
  }
  template <class T, class Read>
  void read_list(const char* member, std::vector<T>& list, Read read_one) {
    const json* const found = find(member);
    if (found == nullptr) return;
    if (!found->is_array())
      throw Error(ErrorKind::InvalidArgument, fmt::format("{}: {}: a list [...] is expected", name_, member));
    for (const json& item : *found) {
      Members members(item, fmt::format("{}: {}[{}]", name_, member, list.size()));
      read_one(members, list.emplace_back());
      members.end();
    }
  }
  void end() const {
    for (const auto& item : object_.items())
      if (!known_.contains(item.key()))
        throw Error(ErrorKind::InvalidArgument, fmt::format("{}: {} is unknown", name_, item.key()));
  }

 private:
  const json* find(const char* member) {
    known_.insert(member);
    const auto found = object_.find(member);
    return found == object_.end() ? nullptr : &*found;
  }

  const json& object_;
  const std::string name_;
  std::set<std::string> known_;
};

void read_faults(Members& members, Topology& topology) {
  members.read_list("slow_ranks", topology.slow_ranks, [](Members& one, SlowRank& slow) {
    one.read("rank", slow.rank);
    one.read("factor", slow.factor);
  });
  members.read_list("degraded_links", topology.degraded_links, [](Members& one, DegradedLink& link) {
    one.read("from", link.from);
    one.read("to", link.to);
    one.read("bandwidth_factor", link.bandwidth_factor);
    one.read("latency_factor", link.latency_factor);
  });
  members.read_list("lost_links", topology.lost_links, [](Members& one, LostLink& link) {
    one.read("from", link.from);
    one.read("to", link.to);
    one.read("step", link.step);
  });
  members.read_list("dead_ranks", topology.dead_ranks, [](Members& one, DeadRank& dead) {
    one.read("rank", dead.rank);
    one.read("step", dead.step);
  });
}

}  // namespace

Topology parse_topology(const std::string& text, const std::string& name) {
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) throw Error(ErrorKind::InvalidArgument, name + ": is no JSON");
  Topology topology;
  Members members(object, name);
  members.read("ranks_per_host", topology.ranks_per_host);
  members.read("rails", topology.rails);
  members.read("hosts_per_switch", topology.hosts_per_switch);
  members.read("oversubscription", topology.oversubscription);
  members.read("inside", topology.inside);
  members.read("network", topology.network);
  members.read("switch_latency_ns", topology.switch_latency_ns);
  members.read("copy_gigabytes_per_second", topology.copy_gigabytes_per_second);
  members.read("reduce_gigabytes_per_second", topology.reduce_gigabytes_per_second);
  read_faults(members, topology);
  members.end();
  return topology;
}

Topology read_topology(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw Error(ErrorKind::InvalidArgument, path + ": cannot be read");
  return parse_topology(text.str(), path);
}

}  // namespace cohort::sim
