// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/own_counts.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

Call& OwnCounts::tell(const Call& call, Rank rank, Rank ranks) {
  mine_.assign(call.counts.begin(), call.counts.end());
  mine_.insert(mine_.end(), call.recv_counts.begin(), call.recv_counts.end());
  told_.resize(mine_.size() * ranks);
  CallArguments arguments{.type = DataType::byte};
  arguments.in = std::as_bytes(std::span(mine_));
  arguments.out = std::as_writable_bytes(std::span(told_));
  return telling_ = make_call(operator_of<AllGather>, arguments, rank, ranks);
}

void OwnCounts::take_matrix(Rank ranks) {
  matrix_.resize(std::size_t{ranks} * ranks);
  const std::size_t per_rank = std::size_t{2} * ranks;
  for (Rank giver = 0; giver < ranks; ++giver) {
    for (Rank taker = 0; taker < ranks; ++taker) {
      const std::size_t given = told_[giver * per_rank + taker];
      const std::size_t expected = told_[taker * per_rank + ranks + giver];
      if (given != expected)
        throw Error(ErrorKind::Mismatch,
                    fmt::format("rank {} gives rank {} {} elements, which expects {}; compare the counts "
                                "that the one gives with those that the other gets",
                                giver, taker, given, expected))
            .with_culprit(giver);
      matrix_[std::size_t{giver} * ranks + taker] = given;
    }
  }
}

Call& OwnCounts::complete(const Call& call, Rank rank, Rank ranks) {
  take_matrix(ranks);
  CallArguments arguments{.type = call.type};
  arguments.in = {call.send, call.send_bytes};
  arguments.out = {call.recv, call.recv_bytes};
  arguments.counts = matrix_;
  return whole_ = make_call(call.op, arguments, rank, ranks);
}

}  // namespace cohort
