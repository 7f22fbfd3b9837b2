// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/stage/stage.h>
#include <cohort/collectives/schedules/exec.h>

#include <string>

namespace cohort::check {

enum class TaskKind : std::uint8_t {
  begin,     ///< of the operation: the caller has filled its buffers
  catch_up,  ///< with the one before, of which a rank has waited for some only
  copy,
  pull,  ///< a copy from a peer's user window
  push,  ///< a copy to a peer's user window
  reduce,
  finish_average,
  phase,
  post,
  wait,
  put,
  get,
  get_reduce,
  send,
  recv,
  recv_reduce,
  notify_post,  ///< between streams of a rank
  notify_wait,
  end,  ///< of the operation: the caller uses its buffers again
};

/// A task as a schedule asks for it. A test of the checker may alter it before it is carried out.
struct TaskRequest {
  TaskKind kind{};
  Rank peer = 0;  ///< of everything on a link
  Lane lane = 0;
  Signal signal{};                         ///< of post, wait and put
  Slice local{};                           ///< of link tasks and finish_average
  Slice remote{};                          ///< of put and get: in the peer's window
  std::span<const PlacedSlice> outputs{};  ///< of copy and reduce
  std::span<const PlacedSlice> inputs{};
  std::uint32_t notify = 0;  ///< of notify_post and notify_wait
  Combine combine{};         ///< of whatever combines; of what is received, never to be divided
};

/// A task that was carried out, as far as messages name it.
struct TaskRecord {
  machine::StreamId stream = 0;
  std::uint32_t number = 0;     ///< in its stream, from 1 in each operation
  std::uint32_t operation = 0;  ///< of operations in a row, from 1
  TaskKind kind{};
  Signal signal{};
  Rank rank = 0;
  Rank peer = 0;  ///< of a link, or the rank whose memory a copy reads, or a push writes
  std::uint32_t operands = 0;
  Slice local;
  Slice remote;
};

/// Copies between this rank's memory and a user window of a peer's that need not be mapped here.
[[nodiscard]] constexpr bool reaches(TaskKind kind) noexcept {
  return kind == TaskKind::pull || kind == TaskKind::push;
}

[[nodiscard]] TaskRecord record(const TaskRequest& request, Rank rank);

/// What it does: "get 4096 bytes of ccl_out from rank 0".
[[nodiscard]] std::string describe(const TaskRecord& task);
/// One or two words for it: "get".
[[nodiscard]] std::string_view short_name(TaskKind kind) noexcept;

}  // namespace cohort::check
