// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/scaled_input.h>

#include <cohort/collectives/memory/reduction/scale.h>

#include <algorithm>

namespace cohort {
namespace {

/// What is scaled between two looks at who else waits on the engine: less than a turn of the loop.
constexpr std::size_t kBytesBetweenTurns = std::size_t{64} << 10;

/// Asked without making a list of its parts, which allocates. An exclusive scan leaves rank 0's output alone.
bool gets_result(const Call& call, Rank rank) {
  return call.recv_bytes != 0 && !(call.op == operator_of<ExclusiveScan> && rank == 0);
}

}  // namespace

Task<Call> ScaledInput::scale(Engine& engine, Call call, Rank rank) {
  std::byte* to = call.recv;
  if (call.recv_bytes != call.send_bytes || !gets_result(call, rank)) {
    beside_.resize(std::max(beside_.size(), call.send_bytes));
    to = beside_.data();
  }
  for (std::size_t at = 0; at < call.send_bytes; at += kBytesBetweenTurns) {
    if (engine.is_turn_over()) co_await engine.let_others_run();
    const std::size_t bytes = std::min(kBytesBetweenTurns, call.send_bytes - at);
    cohort::scale(call.type, call.factor, to + at, call.send + at, bytes / size_bytes(call.type));
  }
  call.send = to;
  co_return call;
}

}  // namespace cohort
