// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <span>
#include <string>
#include <variant>
#include <vector>

namespace cohort::bindings {

/// A collective of one tensor. Memory and counts that it names outlive the call.
struct CollectiveCall {
  Operator op;
  CallArguments arguments{.type = DataType::byte};
};

/// A collective of several tensors. Their memory outlives the call.
struct TensorsCall {
  Operator op;
  DataType type{};
  std::vector<std::span<std::byte>> in{};  ///< only read; empty where `out` is all
  std::vector<std::span<std::byte>> out{};
  Combination reduce = ReduceOp::sum;
  Rank root = 0;
};

/// A message to or from one rank. Its memory outlives the call.
struct MessageCall {
  enum class Direction : std::uint8_t { send, recv, recv_any } direction{};
  Rank peer = 0;  ///< not of recv_any
  std::int32_t tag = 0;
  std::span<std::byte> data{};  ///< only read by a send
};

/// What a thread may ask a communicator for, with types known at run time.
using AnyCall = std::variant<CollectiveCall, TensorsCall, MessageCall>;

/// What holds for a call beside its arguments.
struct CallSettings {
  Duration timeout{0};      ///< zero: the communicator's
  std::string algorithm{};  ///< by name; empty: selected
};

/// The call as a coroutine on the communicator's engine. Arguments outlive it. `from` becomes the rank that a
/// message was from. Throws what such a call throws, at the latest when it is awaited.
[[nodiscard]] Task<> perform(Communicator& comm, const AnyCall& call, const CallSettings& settings,
                             Rank& from);

}  // namespace cohort::bindings
