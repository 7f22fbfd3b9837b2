// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/sim/topology_file.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/variables.h>
#include <cohort/graph/json_words.h>
#include <cohort/tools/sim/library_links.h>

#include <fmt/format.h>
#include <cerrno>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cohort::sim {
namespace {

using nlohmann::json;

/// What a number may be.
template <class T>
struct Range {
  T least;
  T most;
  bool may_be_zero = false;  ///< beside them

  [[nodiscard]] bool holds(T value) const {
    return (value >= least && value <= most) || (may_be_zero && value == 0);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{}from {} to {}", may_be_zero ? "0 or " : "", least, most);
  }
};
using CountRange = Range<std::uint64_t>;
using NumberRange = Range<double>;

// Wider than any machine needs, and narrow enough that picoseconds, which are 64 bits, hold hours of a run
// whatever a single member says. Rates of cores are also what a calibration measures of a few bytes.
constexpr CountRange kRanksOfHost{1, 1 << 20};
constexpr CountRange kCoresOfHost{0, 1 << 20};
constexpr CountRange kHostsOfSwitch{0, 1 << 20};
constexpr CountRange kRails{0, 1 << 10};
constexpr CountRange kHeaderBytes{0, 1 << 20};
constexpr CountRange kCacheBytes{0, std::uint64_t{1} << 40};
constexpr CountRange kRank{0, (1 << 20) - 1};
constexpr CountRange kStep{1, std::numeric_limits<std::uint64_t>::max()};
constexpr NumberRange kNanoseconds{0, 1e9};
constexpr NumberRange kNanosecondsOfDay{0, 86'400e9};
constexpr NumberRange kRateOfLink{1e-4, 1e9};
constexpr NumberRange kRateOfCore{1e-6, 1e9, true};
constexpr NumberRange kFactor{1e-4, 1e4};

/// The members of one object; each is asked for once, and none may be left over.
class Members {
 public:
  Members(const json& object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object.is_object()) throw Error(ErrorKind::InvalidArgument, name_ + ": an object {...} is expected");
  }

  void read(const char* member, bool& value) {
    const json* const found = find(member);
    if (found == nullptr) return;
    if (!found->is_boolean()) refuse(fmt::format("{}: {}", name_, member), *found, "true or false");
    value = found->get<bool>();
  }
  void read(const char* member, double& value, const NumberRange& range) {
    if (const json* const found = find(member); found != nullptr)
      read(*found, fmt::format("{}: {}", name_, member), value, range);
  }
  template <std::unsigned_integral T>
  void read(const char* member, T& value, const CountRange& range) {
    if (const json* const found = find(member); found != nullptr)
      read(*found, fmt::format("{}: {}", name_, member), value, range);
  }
  /// An object, or a list of them, that read_members() knows.
  template <class T>
  void read(const char* member, T& object) {
    if (const json* const found = find(member); found != nullptr)
      read(*found, fmt::format("{}: {}", name_, member), object);
  }
  template <class T, class... Ranges>
  void read(const char* member, std::vector<T>& list, const Ranges&... range) {
    const json* const found = find(member);
    if (found == nullptr) return;
    if (!found->is_array())
      throw Error(ErrorKind::InvalidArgument, fmt::format("{}: {}: a list [...] is expected", name_, member));
    for (const json& item : *found) {
      const std::string name = fmt::format("{}: {}[{}]", name_, member, list.size());
      read(item, name, list.emplace_back(), range...);
    }
  }
  template <class T>
  static void read(const json& object, const std::string& name, T& into) {
    Members members(object, name);
    read_members(members, into);
    members.end();
  }
  void end() const {
    for (const auto& item : object_.items()) {
      if (known_.contains(item.key())) continue;
      const std::vector<std::string_view> names(known_.begin(), known_.end());
      const auto nearest = environment::nearest_name(item.key(), names);
      throw Error(ErrorKind::InvalidArgument,
                  fmt::format("{}: {} is unknown{}", name_, item.key(),
                              nearest ? fmt::format("; {} may be meant", *nearest) : ""));
    }
  }

 private:
  [[noreturn]] static void refuse(const std::string& name, const json& found, const std::string& expected) {
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{} is {}; {} is expected", name, found.dump(), expected));
  }
  static void read(const json& item, const std::string& name, double& into, const NumberRange& range) {
    if (!item.is_number() || !range.holds(item.get<double>())) refuse(name, item, "a number " + range.text());
    into = item.get<double>();
  }
  template <std::unsigned_integral T>
  static void read(const json& item, const std::string& name, T& into, const CountRange& range) {
    if (!item.is_number_unsigned() || !range.holds(item.get<std::uint64_t>()))
      refuse(name, item, "a count " + range.text());
    into = static_cast<T>(item.get<std::uint64_t>());
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
  one.read("rank", slow.rank, kRank);
  one.read("factor", slow.factor, kFactor);
}
void read_members(Members& one, DegradedLink& link) {
  one.read("from", link.from, kRank);
  one.read("to", link.to, kRank);
  one.read("bandwidth_factor", link.bandwidth_factor, kFactor);
  one.read("latency_factor", link.latency_factor, kFactor);
}
void read_members(Members& one, LostLink& link) {
  one.read("from", link.from, kRank);
  one.read("to", link.to, kRank);
  one.read("step", link.step, kStep);
  one.read("at_ns", link.at_ns, kNanosecondsOfDay);
}
void read_members(Members& one, LateRank& late) {
  one.read("rank", late.rank, kRank);
  one.read("by_ns", late.by_ns, kNanosecondsOfDay);
}
void read_members(Members& one, DeadRank& dead) {
  one.read("rank", dead.rank, kRank);
  one.read("step", dead.step, kStep);
}
void read_members(Members& one, CancelledOperation& cancelled) {
  one.read("rank", cancelled.rank, kRank);
  one.read("step", cancelled.step, kStep);
}

void read_members(Members& members, Faults& faults) {
  members.read("slow_ranks", faults.slow_ranks);
  members.read("late_ranks", faults.late_ranks);
  members.read("degraded_links", faults.degraded_links);
  members.read("lost_links", faults.lost_links);
  members.read("dead_ranks", faults.dead_ranks);
  members.read("cancelled_operations", faults.cancelled_operations);
}

void read_members(Members& members, LinkModel& speed) {
  members.read("latency_ns", speed.latency_ns, kNanoseconds);
  members.read("gigabytes_per_second", speed.gigabytes_per_second, kRateOfLink);
  members.read("message_ns", speed.message_ns, kNanoseconds);
  members.read("gap_ns", speed.gap_ns, kNanoseconds);
  members.read("core_gigabytes_per_second", speed.core_gigabytes_per_second, kRateOfCore);
  members.read("header_bytes", speed.header_bytes, kHeaderBytes);
}

void read_members(Members& members, Topology& topology) {
  members.read("ranks_per_host", topology.ranks_per_host, kRanksOfHost);
  members.read("ranks_of_hosts", topology.ranks_of_hosts, kRanksOfHost);
  members.read("cores_per_host", topology.cores_per_host, kCoresOfHost);
  members.read("shared_memory", topology.has_shared_memory);
  if (!topology.has_shared_memory) topology.inside = over_tcp(topology.inside);
  members.read("rails", topology.rails, kRails);
  members.read("gigabytes_per_second_of_hosts", topology.gigabytes_per_second_of_hosts, kRateOfLink);
  members.read("bandwidth_known", topology.is_bandwidth_known);
  members.read("hosts_per_switch", topology.hosts_per_switch, kHostsOfSwitch);
  members.read("oversubscription", topology.oversubscription, kFactor);
  members.read("inside", topology.inside);
  members.read("network", topology.network);
  members.read("switch_latency_ns", topology.switch_latency_ns, kNanoseconds);
  members.read("cache_bytes", topology.cache_bytes, kCacheBytes);
  members.read("core_switch_ns", topology.core_switch_ns, kNanoseconds);
  members.read("copy_gigabytes_per_second", topology.copy_gigabytes_per_second, kRateOfCore);
  members.read("reduce_gigabytes_per_second", topology.reduce_gigabytes_per_second, kRateOfCore);
  members.read("faults", topology.faults);
}

/// Follows the parser: knows where it is, and that no object names a member twice.
class Place {
 public:
  explicit Place(std::string file) : file_(std::move(file)) {}

  bool operator()(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) objects_.emplace_back();
    if (event == json::parse_event_t::object_end) objects_.pop_back();
    if (event == json::parse_event_t::key) enter(parsed.get<std::string>());
    return true;  // keep it
  }
  /// "t.json: network: latency_ns"
  [[nodiscard]] std::string name() const {
    std::string name = file_;
    for (const Object& object : objects_) name += ": " + object.member;
    return name;
  }

 private:
  struct Object {
    std::string member;  ///< that is being read
    std::set<std::string> members;
  };

  void enter(const std::string& member) {
    objects_.back().member = member;
    if (!objects_.back().members.insert(member).second)
      throw Error(ErrorKind::InvalidArgument, name() + " is given twice");
  }

  const std::string file_;
  std::vector<Object> objects_;
};

json parse(const std::string& text, const std::string& file) {
  Place place(file);
  const auto follow = [&](int, json::parse_event_t event, const json& parsed) {
    return place(event, parsed);
  };
  try {
    return json::parse(text, follow);
  } catch (const json::parse_error& error) {
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{}: is no JSON: {}; docs/extend/simulate.md has an example", file,
                            words_of_json(error)));
  } catch (const json::exception& error) {  // a number that no double holds
    throw Error(ErrorKind::InvalidArgument, fmt::format("{}: {}", place.name(), words_of_json(error)));
  }
}

}  // namespace

Topology parse_topology(const std::string& text, const std::string& name) {
  const json object = parse(text, name);
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
