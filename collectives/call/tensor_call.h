// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/call/tensor_list.h>

#include <string_view>

namespace cohort {

/// What a caller gives to a collective of several tensors: lists as long as each other, of which one buffer
/// each is what a collective takes by itself. All tensors have one type.
struct TensorArguments {
  TensorList in{};            ///< not of a broadcast, nor where each input is its output's own block
  TensorList out{};           ///< may be empty on ranks that get nothing
  bool is_own_block = false;  ///< of all_gather: each rank's input is its own block of the output
  Combination reduce = ReduceOp::sum;
  Rank root = 0;
};

/// The call as it was asked for.
struct TensorCall {
  Operator op;
  TensorArguments arguments{};
  std::string_view algorithm{};  ///< asked for by name
  Duration timeout{0};           ///< zero: the communicator's
  Determinism determinism = Determinism::D0;
};

}  // namespace cohort
