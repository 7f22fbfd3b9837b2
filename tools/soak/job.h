// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator_options.h>
#include <cohort/collectives/operators/operator.h>
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

  [[nodiscard]] Form form(Rank ranks) const noexcept { return {count, ranks, root, counts}; }
};

struct CommunicatorPlan {
  std::string name;
  std::string address;
  bool has_secret = true;
  bool is_isolated = false;
  std::size_t buffer_bytes = 0;
  std::size_t pull_from_bytes = 0;
  Duration join_timeout{};
  Duration timeout{};
  std::vector<CallPlan> calls;
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

/// Bugs that tests plant, to see them found. A job that is drawn has none.
struct Planted {
  double deadline_factor = 1;        ///< of the time that communicators give to a call
  bool touches_old_buffers = false;  ///< rank 0 writes to the buffers of its first call when it is over
};

struct Job {
  std::uint64_t seed = 0;
  Rank ranks = 1;
  world::Settings world;
  std::vector<CommunicatorPlan> communicators;
  bool is_concurrent = false;  ///< the communicators live at the same time
  std::optional<Deed> deed;
  Planted planted;

  /// Whether anything is planned that may keep a call from completing.
  [[nodiscard]] bool may_fail() const noexcept {
    return deed || !world.lost.empty() || !world.broken.empty() || !world.dead.empty();
  }
};

/// The job of a seed: the same on every machine.
[[nodiscard]] Job draw_job(std::uint64_t seed);

/// What a rank asks for, as far as it is not what the others do.
[[nodiscard]] CallPlan call_of(const Job& job, Rank rank, std::size_t communicator, std::size_t call);

/// In a few lines, for people.
[[nodiscard]] std::string describe(const Job& job);

}  // namespace cohort::soak
