// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <string>
#include <vector>

namespace cohort {

/// Every rank's text, on every rank. All ranks call it.
[[nodiscard]] Task<std::vector<std::string>> gather_texts(Communicator& comm, std::string own);

/// The first rank of each host, in their order.
[[nodiscard]] std::vector<Rank> first_ranks_of_hosts(const Membership& membership);

}  // namespace cohort
