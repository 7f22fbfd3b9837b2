// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/communicator_options.h>
#include <cohort/collectives/machines/sim/topology.h>
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/engine/world/settings.h>

#include <optional>
#include <string>
#include <vector>

/// Jobs drawn from seeds, which real communicators run in simulated worlds.
namespace cohort::soak {

struct CallPlan {
  Operator op;
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::sum;
  Rank root = 0;
  std::size_t count = 0;              ///< elements of a vector, or of one block
  std::vector<std::size_t> counts{};  ///< of each block, where the operator has them; empty: all alike
  bool is_in_place = false;
  bool is_allocated = false;   ///< buffers of Communicator::allocate()
  bool waits_for_last = true;  ///< false: asked for together with the call before
  std::string_view algorithm;  ///< of the library, where it can run the call; empty: what is selected

  /// Among other ranks than it was drawn for, as in a rival job of another size, all blocks are alike.
  [[nodiscard]] Form form(Rank ranks) const noexcept {
    const bool has_counts = counts.size() == how_many(op->counts, ranks);
    return {count, ranks, root, has_counts ? std::span(counts) : std::span<const std::size_t>()};
  }
};

/// Groups of a communicator's ranks, made as soon as it is joined and used beside its calls.
struct GroupPlan {
  bool is_split = false;        ///< by split(), else by group()
  std::vector<int> colors{};    ///< by rank: those that have one in common; negative: in none
  std::vector<int> keys{};      ///< by rank: their order
  std::vector<CallPlan> calls;  ///< of each group, one after the other

  /// By rank of the group: which rank of the communicator it is.
  [[nodiscard]] std::vector<Rank> members(int color) const;
};

/// A message, under way with all others of its communicator and beside its calls.
struct MessagePlan {
  Rank from = 0;
  Rank to = 0;
  std::int32_t tag = 0;
  std::size_t bytes = 0;
  bool is_for_anybody = false;  ///< all to this rank with this tag are: received as they come
};

struct CommunicatorPlan {
  std::string name;
  std::string address;
  bool has_secret = true;
  bool is_isolated = false;
  std::size_t buffer_bytes = 0;
  std::size_t pull_from_bytes = 0;
  unsigned connections = 1;  ///< of each lane over TCP, or kMeasuredConnections
  Duration join_timeout{};
  Duration timeout{};
  std::vector<CallPlan> calls;
  std::optional<GroupPlan> group{};
  std::vector<MessagePlan> messages{};
};

/// What one rank does at one of its calls, and the others do not.
struct Deed {
  enum class Kind : std::uint8_t {
    cancels,  ///< cancels it, `after` it asked for it
    aborts,   ///< gives the communicator up instead
    leaves,   ///< closes the communicator instead
    differs,  ///< asks for something else
  };
  Kind kind = Kind::cancels;
  Rank rank = 0;
  std::size_t communicator = 0;
  std::size_t call = 0;
  Duration after{};
};

/// One rank does something else for so long before it asks for a call.
struct Lateness {
  Rank rank = 0;
  std::size_t communicator = 0;
  std::size_t call = 0;
  Duration by{};
  bool is_busy = true;  ///< computes: its engine does not turn meanwhile. False: it only waits
};

/// A second job whose ranks meet at the address of the first one's first communicator, and do the same there.
struct Rival {
  enum class Kind : std::uint8_t {
    other_name,    ///< of the communicator
    other_start,   ///< JoinOptions::job
    other_secret,  ///< where jobs have one
    other_size,    ///< number of ranks
    twin,          ///< nothing tells them apart: ranks of one may be taken by the other
  };
  Kind kind = Kind::other_name;
  Rank ranks = 2;
};

/// Bugs that tests plant, to see them found. A job that is drawn has none.
struct Planted {
  double deadline_factor = 1;        ///< of the time that communicators give to a call
  bool touches_old_buffers = false;  ///< rank 0 writes to the buffers of its first call when it is over
  bool touches_peers_late = false;   ///< who fails writes to the buffers of those that have failed before
  bool hears_no_death = false;       ///< whatever dies keeps its connections
  bool mixes_rivals = false;         ///< nothing tells a rival from the first job, whatever is planned
};

struct Job {
  std::uint64_t seed = 0;
  Rank ranks = 1;
  world::Settings world;
  std::vector<CommunicatorPlan> communicators;
  bool is_concurrent = false;  ///< the communicators live at the same time
  std::optional<Deed> deed;
  std::vector<Lateness> late;
  std::optional<Rival> rival;
  std::vector<Duration> begins_after;  ///< by process; those that are not here begin at once
  Duration lingers{};                  ///< of who fails, before it lets go of its memory
  Planted planted;

  /// Ranks of the first job, and behind them those of its rival.
  [[nodiscard]] world::Process processes() const noexcept { return ranks + (rival ? rival->ranks : 0); }
  [[nodiscard]] bool is_rival(world::Process process) const noexcept { return process >= ranks; }
  [[nodiscard]] Rank rank_of(world::Process process) const noexcept {
    return is_rival(process) ? process - ranks : process;
  }
  /// Ranks of its job.
  [[nodiscard]] Rank size_of(world::Process process) const noexcept {
    return is_rival(process) ? rival->ranks : ranks;
  }
  /// Whether somebody is later than the others have patience for.
  [[nodiscard]] bool is_late_beyond_patience() const noexcept;
  /// How many things are planned each of which may keep a call from completing. A rival is none: it may keep
  /// ranks from joining.
  [[nodiscard]] std::size_t faults() const noexcept;
  [[nodiscard]] bool may_fail() const noexcept { return faults() != 0; }
};

/// The job of a seed: the same on every machine.
[[nodiscard]] Job draw_job(std::uint64_t seed);
/// One on hosts and links of the topology, with its faults and no others. Throws InvalidArgument for one that
/// no job can have.
[[nodiscard]] Job draw_job(std::uint64_t seed, const sim::Topology& topology);

/// What a process asks for, as far as it is not what the others do.
[[nodiscard]] CallPlan call_of(const Job& job, world::Process process, std::size_t communicator,
                               std::size_t call);

}  // namespace cohort::soak
