// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

/// A simulated world for engines: virtual time, seeded turns, simulated sockets and faults. The engines and
/// everything on them are the real ones.
namespace cohort::world {

/// A process of the world: one thread with one engine. Numbered from 0; jobs give them the numbers of ranks.
using Process = std::uint32_t;

/// Everything that this process does takes `factor` times as long.
struct SlowProcess {
  Process process = 0;
  double factor = 1;
};
/// The way between two processes of different hosts, in both directions.
struct DegradedLink {
  Process from = 0;
  Process to = 0;
  double bandwidth_factor = 1;
  double latency_factor = 1;
};
/// What `from` sends to `to`, on another host, is lost from message number `step` on, and not before so long
/// has passed; nobody is told.
struct LostLink {
  Process from = 0;
  Process to = 0;
  std::uint64_t step = 1;
  Duration since{};
};
/// With message number `step` from one to the other the connection it is on is reset, at both ends.
struct BrokenLink {
  Process from = 0;
  Process to = 0;
  std::uint64_t step = 1;
};
/// A bug of a transport, for tests: the last byte of message number `step` never comes, and what follows
/// closes the gap.
struct DroppedByte {
  Process from = 0;
  Process to = 0;
  std::uint64_t step = 1;
};
/// The process stops for ever at its interaction number `step` with its host.
struct DeadProcess {
  Process process = 0;
  std::uint64_t step = 1;
  bool since_mark = false;  ///< steps count from World::mark() on, such as when it has joined
  bool is_silent = false;   ///< its sockets stay open, as when it was stopped or its host is gone
};

/// At its interaction number `step` with its host the process forks a child that lives on. It holds copies of
/// the sockets that no handle of the engine guards: their closing, or the process's death, does not end them.
struct ForkingProcess {
  Process process = 0;
  std::uint64_t step = 1;
  bool since_mark = false;  ///< as for DeadProcess
};

struct Settings {
  std::uint64_t seed = 0;
  std::vector<unsigned> host_of;  ///< by process
  bool has_one_image = false;     ///< hosts are clones: they say of themselves that they are the same one
  bool is_one_machine = false;    ///< hosts are containers of one kernel
  bool has_core_each = false;     ///< so that processes do not give theirs away while they wait

  Duration inside_latency = std::chrono::microseconds(3);    ///< between processes of a host
  Duration outside_latency = std::chrono::microseconds(30);  ///< between hosts; up to twice that with jitter
  double bytes_per_ns = 5;                                   ///< between hosts
  std::size_t buffer_bytes = std::size_t{64} << 10;          ///< that a TCP connection holds, each way
  /// Descriptors that may be passed on a host and not received yet.
  std::optional<std::size_t> most_passed_descriptors;
  unsigned tiny_read_percent = 0;  ///< of receives that get only a part of what is there
  unsigned late_percent = 10;      ///< of completions that come one look later
  unsigned late_answer_percent =
      0;                        ///< of what is done and told one look later: cancelling it comes too late
  unsigned pause_percent = 10;  ///< of looks at the driver after which another process goes on
  Duration longest_pause = std::chrono::microseconds(50);  ///< that a process takes for a turn, now and then

  std::vector<SlowProcess> slow;
  std::vector<DegradedLink> degraded;
  std::vector<LostLink> lost;
  std::vector<BrokenLink> broken;
  std::vector<DeadProcess> dead;
  std::vector<DroppedByte> dropped;
  std::vector<ForkingProcess> forking;
  bool children_keep_all = false;  ///< a bug of the library, for tests: a forked child holds guarded sockets

  Duration longest = std::chrono::hours(1);  ///< of virtual time: what goes on for longer is a finding
  std::uint64_t most_turns = 2'000'000;      ///< the same, where time does not pass
  bool prints_trace = false;                 ///< to standard error, a line per event
};

}  // namespace cohort::world
