// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>
#include <cohort/engine/clock.h>
#include <cohort/net/link_host.h>

#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// One collective as the caller asked for it. `count` is what the ranks must agree on: elements of the whole
/// buffer for broadcast and all_reduce, of one rank's block for all_gather, of the whole input for
/// reduce_scatter.
struct Call {
  Operator op = Operator::barrier;
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::sum;
  Rank root = 0;
  std::uint64_t count = 0;
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t send_bytes = 0;
  std::size_t recv_bytes = 0;
  std::optional<AlgorithmId> forced;              ///< by the caller
  AlgorithmId algorithm = AlgorithmId::one_shot;  ///< selected
  Duration timeout{0};                            ///< zero: the communicator's

  /// Bytes of the piece size that algorithms are chosen by: Op::size_bytes().
  [[nodiscard]] std::size_t message_bytes() const noexcept;
};

/// Packs what all ranks must agree on.
[[nodiscard]] Signature sign(const Call& call) noexcept;

/// "all_reduce(float32 sum, count 1024)", for errors.
[[nodiscard]] std::string describe(const Signature& signature);

/// One rank's signature under a sequence number, as far as it is known.
struct SignatureOfRank {
  Rank rank;
  Signature signature;
};

/// The verdict on ranks that disagree, the same on every rank that sees the same table: which field differs,
/// who has which value, and whom most others contradict (the lowest ranks' value decides a tie).
struct Disagreement {
  Rank culprit = 0;
  std::string text;  ///< "count differs: rank 2 has 5, ranks 0, 1, 3 have 4"
};
[[nodiscard]] Disagreement judge(const std::vector<SignatureOfRank>& table);

}  // namespace cohort
