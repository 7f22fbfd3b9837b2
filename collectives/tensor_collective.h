// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/tensor_call.h>
#include <cohort/collectives/call/tensor_list.h>
#include <cohort/collectives/collective.h>

namespace cohort {

namespace detail {
template <Tensors In, Tensors Out>
TensorArguments tensor_arguments(In& in, Out& out, Combination op = ReduceOp::sum, Rank root = 0) {
  check_pair<Tensor<In>, Tensor<Out>>();
  return {.in = input_tensors_of<In>(in), .out = output_tensors_of<Out>(out), .reduce = op, .root = root};
}
}  // namespace detail

/// Small tensors travel in one message, large ones by themselves (tensor_plan.h). The ranks give equally many
/// tensors, of equal sizes: else Mismatch, which names the tensor. An algorithm that is asked for by name
/// runs each message.
using TensorCollective = CollectiveOf<TensorCall>;

}  // namespace cohort
