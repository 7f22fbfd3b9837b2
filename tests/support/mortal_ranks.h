// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <sys/types.h>

#include <functional>
#include <vector>

namespace cohort::test {

/// Ranks that are processes of their own, some of which a test kills or stops. None outlives it.
class MortalRanks {
 public:
  /// What a rank's process does; returns its exit status, which is 70 if it throws. A byte written to
  /// `progress` says that it works.
  using Life = std::function<int(Rank rank, int progress)>;

  MortalRanks() = default;
  MortalRanks(const MortalRanks&) = delete;
  MortalRanks& operator=(const MortalRanks&) = delete;
  ~MortalRanks();

  /// Returns when all of them work, or those that do not have ended: how many worked. Those of the last time
  /// have ended.
  Rank start(Rank ranks, const Life& life);
  /// Requires that status_of() has not been asked for it.
  void signal(Rank rank, int number);
  /// Waits until the rank ends by itself; the test's own time limit is for those that do not. Its exit
  /// status, or minus the signal that it died of.
  int status_of(Rank rank);

 private:
  [[nodiscard]] pid_t process_of(Rank rank) const;

  std::vector<pid_t> processes_;  ///< -1: has ended
};

}  // namespace cohort::test
