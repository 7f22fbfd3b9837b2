// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/memory.h>
#include <cohort/collectives/machines/stage/line.h>
#include <cohort/engine/operation.h>
#include <cohort/net/link.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace cohort::check {

/// A stream that waits in a task; without an operation if the task waits for nothing.
struct Waiting {
  Operation* operation = nullptr;
  StreamId stream = 0;
  TaskId task = 0;
};

enum class MessageKind : std::uint8_t { signal, put, get, reply, bytes };

/// What goes over a link: who sent it, when, and what it holds.
struct Message {
  MessageKind kind{};
  Signal signal{};
  std::uint32_t operation = 0;
  bool is_combined = false;  ///< of a get
  bool is_averaged = false;  ///< the same, of what is combined
  Stamp stamp;
  std::uint32_t rounds = 0;
  std::uint64_t path_bytes = 0;
  Waiting sender;
  Slice remote;  ///< of put and get
  Slice local;   ///< of get: where the reply goes
  Content content;
  std::size_t bytes = 0;
};

using machine::CaseVector;
using machine::Line;

/// The receiving end of one signal.
struct SignalEnd {
  Line<Message> untaken;
  std::optional<Waiting> waiting;
  std::uint32_t posted = 0;
  CaseVector<Moment> takes;
  std::uint32_t operation = 0;  ///< to which the counts belong, where links tell operations apart
  Access last_wait;
};

/// One direction of a link on one lane: what is on its way, and who waits at its end.
struct Channel : machine::InCaseMemory {
  Rank from = 0;
  Rank to = 0;
  Lane lane = 0;
  Line<Message> on_its_way;
  Line<Message> passing_by;  ///< signals, where links buffer and nothing waits behind anything
  std::array<SignalEnd, kSignals> signals;
  std::optional<Waiting> receiver;
  Slice receiver_slice;
  bool receiver_combines = false;
  bool receiver_averages = false;
  /// What puts do at the far end: a stream of its own, made for the first one.
  std::optional<StreamId> puts;
  /// By the receiving rank, whose replies come this way.
  CaseVector<Access> gets;
  Access last_sent;
  Access last_received;
};

}  // namespace cohort::check
