// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/net/rank.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::soak {

/// In place of a transport: ranks that take each other for ranks of two hosts.
inline constexpr std::string_view kTwoHosts = "hosts";

/// What all jobs of processes have in common; what is not here is drawn.
struct ProcessJobOptions {
  Duration takes = std::chrono::seconds(10);
  Duration longest_stop = std::chrono::milliseconds(300);
  /// One of them, or kTwoHosts, is drawn for each job; empty: any that needs no device.
  std::vector<std::string> transports;
};

/// A job whose ranks are processes of this host. They call with deadlines of their own while somebody stops
/// and continues them: what a simulated world, where a rank has its turn to the end, cannot show.
///
/// Its draw is the same for every start of a seed; what happens in it is not.
struct ProcessJob {
  std::uint64_t seed = 0;
  Rank ranks = 2;
  std::string transport;
  bool is_by_epoll = false;
  bool copies_by_kernel = true;    ///< COHORT_CMA
  bool is_first_without = false;   ///< rank 0 lets the kernel copy nothing, and the others need not know
  unsigned percent_allocated = 0;  ///< of a rank's buffers that peers map
  unsigned connections = 1;        ///< COHORT_TCP_CONNECTIONS
  unsigned stoppers = 1;           ///< how many ranks may be stopped at once
  Duration takes{};
  Duration longest_stop{};

  /// Whether a rank may be stopped amid a copy for longer than peers wait for it: then it ends that copy in
  /// their memory (docs/operate/faults.md).
  [[nodiscard]] bool may_write_late() const noexcept { return longest_stop > std::chrono::seconds(4); }
};

[[nodiscard]] ProcessJob draw_process_job(std::uint64_t seed, const ProcessJobOptions& options);
/// One line.
[[nodiscard]] std::string describe(const ProcessJob& job);

}  // namespace cohort::soak
