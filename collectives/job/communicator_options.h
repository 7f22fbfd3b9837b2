// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/wording.h>
#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/determinism.h>
#include <cohort/net/connections.h>
#include <cohort/net/join/join_options.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cohort {

struct TransportKind;

inline constexpr std::size_t kNeverPull = ~std::size_t{0};

/// How a communicator is made. Everything that ranks must agree on is checked at joining. Can be copied.
struct CommunicatorOptions {
  CommunicatorOptions() = default;

  JoinOptions join;
  /// The only kind of transport that may be used, by name; empty: COHORT_TRANSPORT, or between each two ranks
  /// the first that reaches: shm on one host, tcp between hosts.
  std::string transport;
  /// What there is to choose from, in order of preference, the same on all ranks; outlives the communicator.
  /// The library's unless set.
  std::span<const TransportKind> transports;
  /// For all calls that it can run, or by operator, as in all_reduce=ring/all_gather=mesh. Empty:
  /// COHORT_ALGO, or the cheapest.
  std::string algorithm;
  /// Of what calls combine, unless they ask for another level; the same on all ranks. COHORT_DETERMINISM.
  Determinism determinism = Determinism::D0;
  std::vector<AnyAlgorithm> algorithms;  ///< of the program's own, beside the library's; on all ranks
  std::size_t buffer_bytes = 0;          ///< of each CCL buffer; 0: COHORT_BUFFSIZE, or 4 MiB
  std::size_t heap_bytes = 0;            ///< address space for allocate(); 0: COHORT_HEAPSIZE, or 4 GiB
  /// Of the CCL buffers of all groups together, beyond which groups have the least; 0: COHORT_GROUP_BUFFSIZE,
  /// or 16 times those of this one.
  std::size_t group_buffer_bytes = 0;
  /// From which size on the kernel copies straight between private buffers: 0: measured; kNeverPull: never.
  std::size_t pull_from_bytes = 0;
  /// Hosts fill switches in the order of their first ranks, so many each; 0: COHORT_HOSTS_PER_SWITCH, or not
  /// known. The same on all ranks.
  Rank hosts_per_switch = 0;
  /// Of the network of this rank's host, the same for all of its ranks, in any unit: what ahc cuts among
  /// hosts it cuts in proportion. 0: COHORT_HOST_BANDWIDTH, or not known, as on all other hosts then.
  std::uint32_t host_bandwidth = 0;
  /// Over which a link over TCP to another host spreads large messages, up to 16, or kMeasuredConnections;
  /// the same on all ranks. Nullopt: COHORT_TCP_CONNECTIONS, or 1.
  std::optional<unsigned> tcp_connections;
  bool uses_huge_pages = true;  ///< for large buffers of allocate(), where the kernel has them
  /// Threads that help a rank with large copies and reductions; nullopt: COHORT_COPY_THREADS, or up to 3 of
  /// the cores that this machine's ranks leave idle.
  std::optional<unsigned> copy_threads;
  Duration timeout{0};  ///< of a collective; zero: COHORT_TIMEOUT, or 10 minutes
  /// How long a collective takes before the log says for whom it waits, and again after twice as long, four
  /// times ...; nullopt: COHORT_WARN_AFTER, or 30 s; zero: never.
  std::optional<Duration> warn_after;
  Wording wording;           ///< of errors and warnings, for a binding to another language
  bool is_isolated = false;  ///< reach ranks of this process as if they were in others; on all ranks

  /// All from the environment. Throws InvalidArgument, AuthFailed as JoinOptions::from_environment() does for
  /// what rank 0 cannot be reached without; Communicator::join() throws it for other variables, and all ranks
  /// hear of it.
  static CommunicatorOptions from_environment();
  /// For ranks that have the bytes of rank 0's root_info(); everything else from the environment, as above.
  static CommunicatorOptions from_root_info(std::span<const std::byte> info, Rank rank, Rank size);
  /// From the environment what does not concern joining, for ranks that meet in another way. Throws
  /// InvalidArgument, if it is not to be kept in `join`.
  static CommunicatorOptions collectives_from_environment(WrongVariable wrong = WrongVariable::thrown);
  /// With the fault that there is already, if there is one.
  void set_join(JoinOptions options);
  /// The same for another rank, as when one process runs several.
  [[nodiscard]] CommunicatorOptions for_rank(Rank rank, Rank size) const;
};

}  // namespace cohort
