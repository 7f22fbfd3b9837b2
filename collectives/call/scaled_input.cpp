// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/scaled_input.h>

#include <cohort/collectives/memory/reduction/scale.h>

#include <algorithm>

namespace cohort {
namespace {

/// What is scaled between two looks at who else waits on the engine: some 10 us.
constexpr std::size_t kBytesBetweenLooks = std::size_t{64} << 10;

}  // namespace

Task<Call> ScaledInput::scale(Engine& engine, Call call, Rank rank, Rank ranks) {
  std::byte* to = call.recv;
  const bool has_result = !call.op->result(call.form(ranks), rank).empty();
  if (call.recv_bytes != call.send_bytes || !has_result) {
    beside_.resize(std::max(beside_.size(), call.send_bytes));
    to = beside_.data();
  }
  for (std::size_t at = 0; at < call.send_bytes; at += kBytesBetweenLooks) {
    if (engine.is_turn_over()) co_await engine.let_others_run();
    const std::size_t bytes = std::min(kBytesBetweenLooks, call.send_bytes - at);
    cohort::scale(call.type, call.factor, to + at, call.send + at, bytes / size_bytes(call.type));
  }
  call.send = to;
  co_return call;
}

}  // namespace cohort
