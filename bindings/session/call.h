// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <array>
#include <concepts>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace cohort::bindings {

/// A collective of one tensor. Memory and counts that it names outlive the call.
struct CollectiveCall {
  enum class Counts : std::uint8_t {
    optional,  ///< none: all blocks alike
    needed,    ///< none, as of an empty vector, are too few
    of_rank,   ///< needed, those that this rank gives and gets, as of all_to_all_v
  };
  Operator op;
  CallArguments arguments{.type = DataType::byte};
  Counts counts = Counts::optional;
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

/// What a thread may ask a communicator for, with types known at run time; the last two as
/// Communicator::call_by_function() and call_message() take them. What they name outlives the call.
using AnyCall = std::variant<CollectiveCall, TensorsCall, MessageCall, FunctionCall, MessageRequest>;

/// An algorithm by name, or none. It has no destructor, so that settings in braces may stand in a statement
/// with co_await, where g++ 12 destroys a temporary twice.
class AlgorithmName {
 public:
  static constexpr std::size_t kMostLetters = 119;

  AlgorithmName() noexcept {}
  /// Throws InvalidArgument for one that is longer.
  template <std::convertible_to<std::string_view> Text>
  AlgorithmName(const Text& name) {  // NOLINT(google-explicit-constructor)
    assign(name);
  }

  operator std::string_view() const noexcept {  // NOLINT(google-explicit-constructor)
    return {letters_.data(), size_};
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { size_ = 0; }

 private:
  void assign(std::string_view name);

  std::array<char, kMostLetters> letters_;
  std::uint8_t size_ = 0;
};

/// What holds for a call beside its arguments.
struct CallSettings {
  Duration timeout{0};        ///< zero: the communicator's
  AlgorithmName algorithm{};  ///< empty: selected
};
static_assert(std::is_trivially_destructible_v<CallSettings>);

/// The call as a coroutine on the communicator's engine. Arguments outlive it. `envelope` becomes what a
/// message was. Throws what such a call throws, at the latest when it is awaited.
[[nodiscard]] Task<> perform(Communicator& comm, const AnyCall& call, const CallSettings& settings,
                             Envelope& envelope);

}  // namespace cohort::bindings
