// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/net/rank.h>

#include <memory>
#include <string>
#include <string_view>

namespace cohort {

/// A client of PMIx, which Open MPI's mpirun, Slurm and PRRTE speak: as Pmi1Client. The library libpmix is
/// loaded when it is wanted, so that nothing depends on it.
///
/// Blocks. Errors: Unsupported where the library or a launcher is missing, with what it said.
class PmixClient : Immovable {
 public:
  PmixClient();
  ~PmixClient();

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank size();
  void put(std::string_view key, const std::string& value);
  /// Of rank 0.
  [[nodiscard]] std::string get(std::string_view key);
  /// Returns when all processes of the job have called it, and knows what they put.
  void fence();
  void finalize();

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace cohort
