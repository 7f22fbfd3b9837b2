// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/determinism.h>
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/engine/task.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/hosts.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace cohort {

class Exec;
template <class Op>
struct Algorithm;

/// What ranks sign with for an algorithm: computed from its name, so that ranks that registered theirs in
/// another order still agree.
using AlgorithmId = std::uint16_t;

/// FNV-1a, folded.
[[nodiscard]] constexpr AlgorithmId algorithm_id(std::string_view name) noexcept {
  std::uint32_t hash = 2166136261U;
  for (const char letter : name) hash = (hash ^ static_cast<std::uint8_t>(letter)) * 16777619U;
  return static_cast<AlgorithmId>(hash >> 16 ^ hash);
}

/// Counted from a schedule's rules, for ranks and bytes that divide evenly; the checker holds each figure to
/// what it counts, exactly. What selection compares.
struct Cost {
  double rounds = 0;         ///< messages and phases that follow one another
  double bytes_moved = 0;    ///< that the busiest rank sends, or gets, or that follow one another on a path
  double bytes_reduced = 0;  ///< operands beyond the first, of the rank that combines most
  double bytes_copied = 0;   ///< within its memory, out of place, of the rank that copies most; over links
  double messages = 0;       ///< signals included, that all ranks send over links, together
  double bytes_by_all = 0;   ///< that those hold
  // Of these, what the rank sends that sends most, of a root that gives to all, and how many messages the
  // rank takes that takes most, of a root that all give to; 0: it is not told.
  double messages_of_one = 0;
  double bytes_of_one = 0;
  double messages_to_one = 0;
  // What of these stays inside of hosts: exact where a schedule has levels, estimated by its Distances where
  // it does not ask which ranks share one.
  double rounds_inside = 0;
  double bytes_moved_inside = 0;
  double messages_inside = 0;
  double bytes_by_all_inside = 0;

  /// One after the other.
  Cost& operator+=(const Cost& next) noexcept {
    rounds += next.rounds;
    bytes_moved += next.bytes_moved;
    bytes_reduced += next.bytes_reduced;
    bytes_copied += next.bytes_copied;
    messages += next.messages;
    bytes_by_all += next.bytes_by_all;
    messages_of_one += next.messages_of_one;
    bytes_of_one += next.bytes_of_one;
    messages_to_one += next.messages_to_one;
    rounds_inside += next.rounds_inside;
    bytes_moved_inside += next.bytes_moved_inside;
    messages_inside += next.messages_inside;
    bytes_by_all_inside += next.bytes_by_all_inside;
    return *this;
  }
  /// So many times, one after the other.
  [[nodiscard]] Cost times(double runs) const noexcept {
    return {.rounds = runs * rounds,
            .bytes_moved = runs * bytes_moved,
            .bytes_reduced = runs * bytes_reduced,
            .bytes_copied = runs * bytes_copied,
            .messages = runs * messages,
            .bytes_by_all = runs * bytes_by_all,
            .messages_of_one = runs * messages_of_one,
            .bytes_of_one = runs * bytes_of_one,
            .messages_to_one = runs * messages_to_one,
            .rounds_inside = runs * rounds_inside,
            .bytes_moved_inside = runs * bytes_moved_inside,
            .messages_inside = runs * messages_inside,
            .bytes_by_all_inside = runs * bytes_by_all_inside};
  }
  /// The same, with so many bytes copied.
  [[nodiscard]] Cost copying(double bytes) const noexcept {
    Cost cost = *this;
    cost.bytes_copied = bytes;
    return cost;
  }
  /// The same, of which all stays inside of hosts.
  [[nodiscard]] Cost inside() const noexcept {
    Cost cost = *this;
    cost.rounds_inside = rounds;
    cost.bytes_moved_inside = bytes_moved;
    cost.messages_inside = messages;
    cost.bytes_by_all_inside = bytes_by_all;
    cost.messages_of_one = cost.bytes_of_one = cost.messages_to_one = 0;
    return cost;
  }
  /// The same, of which nothing does.
  [[nodiscard]] Cost outside() const noexcept {
    Cost cost = *this;
    cost.rounds_inside = cost.bytes_moved_inside = cost.messages_inside = cost.bytes_by_all_inside = 0;
    return cost;
  }
};
[[nodiscard]] inline Cost operator+(Cost first, const Cost& next) noexcept { return first += next; }

/// What one run of a schedule needs before it starts. Computed once per tag and kept.
struct Needs {
  bool links_to_all = false;
  bool links_to_neighbours = false;
  // On levels:
  bool links_inside = false;          ///< to the ranks of the host
  bool links_in_trees = false;        ///< along the Tree over the ranks of each host
  bool links_across = false;          ///< to the ranks in the same place of other hosts
  bool links_between_firsts = false;  ///< the same of the first ranks of hosts only
  bool links_to_next_hosts = false;   ///< the same of the hosts before and after, around the ring
  /// To the ranks in the same place of hosts below the same switch, and of those that have the host's place
  /// below other switches. Of Levels::equal_switches.
  bool links_by_switch = false;
  bool links_to_middles = false;   ///< to the Hosts::middle() of other hosts, for either end
  bool links_to_carriers = false;  ///< to the Carrying partners on other hosts
  std::size_t scratch_bytes = 0;
  Lane lanes = 1;
  Lane lanes_across = kMostLanes;  ///< of links from host to host, where these are fewer

  [[nodiscard]] bool has_link(const Hosts& hosts, Rank from, Rank to, Lane lane) const noexcept {
    const bool is_inside = hosts.host_of(from) == hosts.host_of(to);
    if (lane >= lanes || (!is_inside && lane >= lanes_across)) return false;
    const Rank ranks = hosts.ranks();
    const bool are_neighbours = to == (from + 1) % ranks || from == (to + 1) % ranks;
    return links_to_all || (links_to_neighbours && are_neighbours) ||
           (is_inside ? has_link_inside(hosts.place_of(from), hosts.place_of(to))
                      : has_link_across(hosts.place_of(from), hosts.place_of(to))) ||
           (!is_inside && links_to_carriers && do_overlap(hosts, from, to)) ||
           (!is_inside && links_to_middles &&
            (hosts.middle(hosts.host_of(to), from) == to || hosts.middle(hosts.host_of(from), to) == from)) ||
           (!is_inside && links_to_next_hosts && are_in_next_hosts(hosts, from, to)) ||
           (!is_inside && links_by_switch && has_link_by_switch(hosts, from, to));
  }
  /// Whether between hosts a rank sends to one other all the time.
  [[nodiscard]] bool keeps_to_neighbours() const noexcept {
    return links_to_neighbours || links_to_next_hosts;
  }

 private:
  [[nodiscard]] bool has_link_inside(Rank from, Rank to) const noexcept {
    const auto [above, below] = std::minmax(from, to);
    return links_inside || (links_in_trees && above == (below & (below - 1)));
  }
  [[nodiscard]] bool has_link_across(Rank from, Rank to) const noexcept {
    return from == to && (links_across || (links_between_firsts && from == 0));
  }
  [[nodiscard]] static bool are_in_next_hosts(const Hosts& hosts, Rank from, Rank to) noexcept {
    const Rank host = hosts.host_of(from);
    const Rank other = hosts.host_of(to);
    const Rank count = hosts.count();
    return hosts.place_of(from) == hosts.place_of(to) &&
           (other == (host + 1) % count || host == (other + 1) % count);
  }
  [[nodiscard]] static bool has_link_by_switch(const Hosts& hosts, Rank from, Rank to) noexcept {
    const Hosts& switches = *hosts.switches();
    const Rank host = hosts.host_of(from);
    const Rank other = hosts.host_of(to);
    return hosts.place_of(from) == hosts.place_of(to) &&
           (switches.host_of(host) == switches.host_of(other) ||
            switches.place_of(host) == switches.place_of(other));
  }
  /// As parts of a vector that each host cuts for its ranks.
  [[nodiscard]] static bool do_overlap(const Hosts& hosts, Rank one, Rank other) noexcept {
    const std::uint64_t place = hosts.place_of(one);
    const std::uint64_t other_place = hosts.place_of(other);
    const std::uint64_t size = hosts.size_of(hosts.host_of(one));
    const std::uint64_t other_size = hosts.size_of(hosts.host_of(other));
    return place * other_size < (other_place + 1) * size && other_place * size < (place + 1) * other_size;
  }
};

/// Where a schedule runs.
enum class Scope : std::uint8_t {
  network,  ///< anywhere
  node,     ///< where all ranks map each other's CCL buffers: those of one host, over shared memory
  self,     ///< in a communicator of one
};

/// What the hosts of the ranks have to be like.
enum class Levels : std::uint8_t {
  none,         ///< whatever they are like: the schedule does not ask
  any_hosts,    ///< it has a level inside of hosts and one across them
  equal_hosts,  ///< the same, and needs hosts of as many ranks each
  /// And one more, across switches; needs to know these, and as many hosts below each.
  equal_switches,
};
/// What that comes to, of any Levels.
[[nodiscard]] constexpr std::string_view hosts_needed(Levels levels) noexcept {
  switch (levels) {
    case Levels::none:
    case Levels::any_hosts: return "any hosts";
    case Levels::equal_hosts: return "hosts of as many ranks each";
    case Levels::equal_switches:
      return "hosts of as many ranks each, as many of them below each switch, and to know that "
             "(COHORT_HOSTS_PER_SWITCH, hosts_per_switch of a topology)";
  }
  return {};
}

/// What every rank tells the others when the ranks of a host meet, before a local schedule runs.
enum class Announces : std::uint8_t {
  nothing,  ///< there is no local schedule
  data,     ///< its input, if it fits: at most tuning::slots::kMostBytes
  windows,  ///< where its user windows lie: the local schedule runs only if everybody maps all of them
};

/// Any algorithm, for whoever does not know its operator: the core, selection, checker and simulator. A
/// value, which points to an Algorithm that outlives it.
class AnyAlgorithm {
 public:
  /// Defined in algorithm.h.
  template <class Op>
  AnyAlgorithm(const Algorithm<Op>& algorithm) noexcept;  // NOLINT(google-explicit-constructor)
  template <class Op>
  AnyAlgorithm(const Algorithm<Op>&& algorithm) = delete;  ///< it would not outlive this

  /// Why it could not run where it says it does; empty if it can.
  [[nodiscard]] std::string_view objection() const noexcept {
    if (name_.empty()) return "it needs a name";
    if (announces_ != Announces::nothing && scope_ == Scope::network)
      return "what ranks announce as they meet is for Scope::node";
    const bool is_always_local = announces_ == Announces::data || scope_ == Scope::self;
    if (!has_schedule_ && !is_always_local) return "it needs a schedule for where not all windows are mapped";
    return {};
  }

  [[nodiscard]] Operator op() const noexcept { return op_; }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] AlgorithmId id() const noexcept { return id_; }
  [[nodiscard]] Scope scope() const noexcept { return scope_; }
  [[nodiscard]] Levels levels() const noexcept { return levels_; }
  /// In which order it combines; of what combines nothing the best there is.
  [[nodiscard]] ReductionOrder order() const noexcept { return order_; }
  /// Whether its levels fit these hosts.
  [[nodiscard]] bool fits(const Hosts& hosts) const noexcept {
    if (levels_ == Levels::none || levels_ == Levels::any_hosts) return true;
    const Hosts* const switches = hosts.switches();
    return hosts.are_equal() &&
           (levels_ == Levels::equal_hosts || (switches != nullptr && switches->are_equal()));
  }
  [[nodiscard]] Announces announces() const noexcept { return announces_; }
  [[nodiscard]] bool has_schedule() const noexcept { return has_schedule_; }
  [[nodiscard]] bool has_cost() const noexcept { return has_cost_; }
  /// Whether ranks may announce inputs of so many bytes by reference.
  [[nodiscard]] bool may_refer(std::size_t bytes) const noexcept {
    return may_refer_ && bytes >= tuning::slots::kReferFrom;
  }
  [[nodiscard]] bool may_refer() const noexcept { return may_refer_; }
  /// Whether a local schedule goes on after a phase where all inputs have travelled.
  [[nodiscard]] bool meets_again(const Exec& x, std::size_t bytes) const {
    return meets_again_ != nullptr && meets_again_(x, bytes);
  }

  /// Whether it can write to blocks that lie apart.
  [[nodiscard]] bool keeps_to_blocks() const noexcept { return keeps_to_blocks_; }

  /// Of a message of so many bytes; zeros if it has none. Of hosts that it fits.
  [[nodiscard]] Cost cost(std::size_t bytes, const Hosts& hosts) const {
    return functions_->cost(typed_, bytes, hosts);
  }
  [[nodiscard]] Needs needs(std::size_t bytes, const Hosts& hosts) const {
    return functions_->needs(typed_, bytes, hosts);
  }
  [[nodiscard]] std::size_t largest_piece(std::size_t buffer_bytes, const Hosts& hosts) const {
    return functions_->largest_piece(typed_, buffer_bytes, hosts);
  }

  /// The schedule, once for each piece of the message; at least once.
  [[nodiscard]] Task<> run(Exec& x, const OperatorArguments& arguments, std::size_t piece) const {
    return functions_->run(typed_, x, arguments, piece);
  }
  /// The two parts of the local schedule.
  void combine(Exec& x, const OperatorArguments& arguments) const {
    functions_->combine(typed_, x, arguments);
  }
  void finish(Exec& x, const OperatorArguments& arguments) const { functions_->finish(typed_, x, arguments); }

 private:
  /// Of all algorithms of an operator.
  struct Functions {
    Cost (*cost)(const void*, std::size_t, const Hosts&);
    Needs (*needs)(const void*, std::size_t, const Hosts&);
    std::size_t (*largest_piece)(const void*, std::size_t, const Hosts&);
    Task<> (*run)(const void*, Exec&, const OperatorArguments&, std::size_t);
    void (*combine)(const void*, Exec&, const OperatorArguments&);
    void (*finish)(const void*, Exec&, const OperatorArguments&);
  };

  template <class Op>
  struct Typed;
  [[nodiscard]] static const Functions& functions_of(Operator op) noexcept;

  const void* typed_;
  const Functions* functions_;
  std::string_view name_;
  Operator op_;
  AlgorithmId id_;
  Scope scope_;
  Levels levels_;
  ReductionOrder order_;
  Announces announces_;
  bool (*meets_again_)(const Exec&, std::size_t);
  bool may_refer_;
  bool keeps_to_blocks_;
  bool has_schedule_;
  bool has_cost_;
};

}  // namespace cohort
