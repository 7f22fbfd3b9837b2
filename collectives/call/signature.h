// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/call/function_reduction.h>
#include <cohort/collectives/call/list_digest.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/net/link_owner.h>

#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// Packs what all ranks must agree on; of counts that differ a CountsDigest.
[[nodiscard]] Signature sign(const Call& call, Rank ranks) noexcept;

/// The same for all of a call's tensors, by its first message; their digest stands for the count.
[[nodiscard]] Signature sign_tensors(const Call& first, Rank ranks, const ListDigest& digest) noexcept;

/// The same of a call by a function of the program's, which is `whole` in bytes.
[[nodiscard]] Signature sign_function(const Call& whole, Rank ranks,
                                      const ElementFunction& function) noexcept;

/// The same call by another algorithm.
[[nodiscard]] Signature with_algorithm(const Signature& signature, AlgorithmId id) noexcept;

/// "all_reduce(float32 sum, count 1024)", for errors.
[[nodiscard]] std::string describe(const Signature& signature);

/// One rank's signature under a sequence number, as far as it is known.
struct SignatureOfRank {
  Rank rank;
  Signature signature;
};

/// The verdict on ranks that disagree, the same on every rank that sees the same list: which field differs,
/// who has which value, and whom most others contradict (the lowest ranks' value decides a tie).
struct Disagreement {
  Rank culprit = 0;
  std::optional<Rank>
      opponent;              ///< of a tie: the first of those who have the other value, as likely at fault
  bool is_of_bytes = false;  ///< of types, one of which is bytes
  std::string text;          ///< "count differs: rank 2 has 5, ranks 0, 1, 3 have 4"
};
[[nodiscard]] Disagreement judge(const std::vector<SignatureOfRank>& signatures,
                                 const AlgorithmTable& algorithms, Rank ranks);

}  // namespace cohort
