// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/join/root_info.h>
#include <cohort/net/rank.h>

#include <optional>
#include <string>

/// Meeting by the launcher: rank 0 makes a root_info(), and the others get it by PMI-1 or PMIx.
namespace cohort::pmi {

/// Whether the environment says that this process is that rank of a launcher that can do it.
[[nodiscard]] bool is_offered_to(Rank rank, Rank size);

/// What rank 0 made, the same for every call of this process. Every rank of the job calls it; blocks until
/// they have. `how` gets "PMI-1" or "PMIx". Throws what the clients throw.
///
/// A process that also uses MPI has to set COHORT_ADDR, or send a root_info() by MPI itself: the launcher
/// hears one client of a process.
[[nodiscard]] const RootInfo& exchange(Rank rank, std::string& how);

/// Of a launcher that speaks PMIx and says nothing else by the environment: rank and size.
struct PmixPlace {
  Rank rank;
  Rank size;
};
[[nodiscard]] std::optional<PmixPlace> place_by_pmix();

}  // namespace cohort::pmi
