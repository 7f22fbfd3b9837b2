// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/engine/system/line_channel.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// A client of PMI-1, the process management interface of MPICH's mpiexec, of Flux, and of Slurm's pmi2
/// plugin: texts that the processes of a job tell each other by their launcher, before they are connected.
/// Each request is a line of words KEY=VALUE, and so is its answer.
///
/// Blocks. Errors: ProtocolError for answers that are none, with both lines; those of LineChannel.
class Pmi1Client : Immovable {
 public:
  /// By PMI_FD, or by PMI_PORT and PMI_ID; nothing where no such launcher is there.
  [[nodiscard]] static std::optional<LineChannel> channel(Duration patience);

  /// Says hello.
  Pmi1Client(LineChannel channel, Duration patience);

  /// Keys and values have no blanks; each key once in a job.
  void put(std::string_view key, std::string_view value);
  /// What was put before the last barrier(), by whomever.
  [[nodiscard]] std::string get(std::string_view key);
  /// Returns when all processes of the job have called it.
  void barrier();
  /// This process says nothing more. A launcher takes an end without it for a failure.
  void finalize();

  [[nodiscard]] std::size_t longest_value() const noexcept { return longest_value_; }

 private:
  using Words = std::map<std::string, std::string, std::less<>>;
  Words ask(std::string_view request, std::string_view answer);

  LineChannel channel_;
  const Duration patience_;
  std::string space_;  ///< the name of the job's texts
  std::size_t longest_value_ = 0;
};

}  // namespace cohort
