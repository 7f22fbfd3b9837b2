// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/job.h>
#include <cohort/bindings/torch/tensors.h>

#include <ATen/ATen.h>

#include <utility>

namespace cohort::torch_face {

using c10d::OpType;

Collective ProcessGroupCohort::combining(const char* op, const at::Tensor& tensor,
                                         const c10d::ReduceOp& reduction) const {
  using Kind = c10d::ReduceOp::RedOpType;
  Collective call;
  call.op = op;
  call.type = type_name(tensor);
  const bool is_bool = tensor.scalar_type() == at::kBool;
  const bool scales = reduction.op_ == Kind::AVG || reduction.op_ == Kind::PREMUL_SUM;
  TORCH_CHECK(call.type != kBytes, "cohort: ", op, ": elements of ", tensor.scalar_type(),
              " can be moved only, not combined: give tensors of another type, such as tensor.float()");
  TORCH_CHECK(!tensor.is_complex() || scales || reduction.op_ == Kind::SUM, "cohort: ", op,
              ": complex numbers can be added only");
  TORCH_CHECK(!is_bool || !scales, "cohort: ", op, ": truth values have no average");
  switch (reduction.op_) {
    case Kind::SUM: call.reduce = is_bool ? "logical_or" : "sum"; break;
    case Kind::AVG: call.reduce = "avg"; break;
    case Kind::PRODUCT: call.reduce = is_bool ? "logical_and" : "prod"; break;
    case Kind::MIN: call.reduce = "min"; break;
    case Kind::MAX: call.reduce = "max"; break;
    case Kind::BAND: call.reduce = "bit_and"; break;
    case Kind::BOR: call.reduce = "bit_or"; break;
    case Kind::BXOR: call.reduce = "bit_xor"; break;
    case Kind::PREMUL_SUM: {
      const auto* const given = static_cast<c10d::PreMulSumSupplement*>(reduction.supplement_.get());
      TORCH_CHECK(given != nullptr, "cohort: PREMUL_SUM without a factor");
      TORCH_CHECK(!given->tensor_factor.defined() || given->tensor_factor.numel() == 1,
                  "cohort: PREMUL_SUM takes one number for its factor");
      call.reduce = "scaled_sum";
      call.factor =
          given->tensor_factor.defined() ? given->tensor_factor.item<double>() : given->double_factor;
      break;
    }
    default: TORCH_CHECK(false, "cohort: ", op, " with an unknown reduction");
  }
  return call;
}

ProcessGroupCohort::Work ProcessGroupCohort::broadcast(Tensors& tensors,
                                                       const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  const at::Tensor memory = getRank() == options.rootRank ? readable(tensor) : writable(tensor);
  Collective call;
  call.op = "broadcast";
  call.type = type_name(tensor);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  call.out = memory_of(memory);
  return start({OpType::BROADCAST, "cohort:broadcast", {memory}, tensors, copying_back(memory, tensor)},
               std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::allreduce(Tensors& tensors,
                                                       const c10d::AllreduceOptions& options) {
  if (tensors.size() > 1) {
    c10d::AllreduceCoalescedOptions coalesced;
    coalesced.reduceOp = options.reduceOp;
    coalesced.timeout = options.timeout;
    coalesced.asyncOp = options.asyncOp;
    return allreduce_coalesced(tensors, coalesced);
  }
  TORCH_CHECK(!tensors.empty(), "cohort: allreduce takes a tensor");
  if (tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
  const at::Tensor& tensor = only(tensors, "allreduce");
  Collective call = combining("all_reduce", tensor, options.reduceOp);
  const at::Tensor memory = changeable(tensor);
  call.in = call.out = memory_of(memory);
  return start({OpType::ALLREDUCE, "cohort:all_reduce", {memory}, tensors, copying_back(memory, tensor)},
               std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "reduce");
  const bool is_root = getRank() == options.rootRank;
  Collective call = combining("reduce", tensor, options.reduceOp);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  const at::Tensor memory = is_root ? changeable(tensor) : readable(tensor);
  call.in = call.out = memory_of(memory);
  return start(
      {OpType::REDUCE, "cohort:reduce", {memory}, tensors, is_root ? copying_back(memory, tensor) : nullptr},
      std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                             const c10d::AllgatherOptions& options) {
  check(output);
  check(input);
  check_same_type(output, input, "all_gather_into_tensor");
  TORCH_CHECK(output.numel() == input.numel() * getSize(),
              "cohort: all_gather_into_tensor: the output holds ", output.numel(), " elements; give ",
              input.numel() * getSize(), ", for the input of each of ", getSize(), " ranks");
  const at::Tensor in = readable(input);
  const at::Tensor out = writable(output);
  Collective call;
  call.op = "all_gather";
  call.type = type_name(input);
  call.in = memory_of(in);
  call.out = memory_of(out);
  return start(
      {OpType::_ALLGATHER_BASE, "cohort:_all_gather_base", {in}, {output}, copying_back(out, output)},
      std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                  const c10d::ReduceScatterOptions& options) {
  check(output);
  check(input);
  check_same_type(output, input, "reduce_scatter_tensor");
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "cohort: reduce_scatter_tensor: the input holds ",
              input.numel(), " elements; give ", output.numel() * getSize(), ", for the output of each of ",
              getSize(), " ranks");
  const at::Tensor in = readable(input);
  const at::Tensor out = writable(output);
  Collective call = combining("reduce_scatter", output, options.reduceOp);
  call.in = memory_of(in);
  call.out = memory_of(out);
  return start({OpType::_REDUCE_SCATTER_BASE,
                "cohort:_reduce_scatter_base",
                {in},
                {output},
                copying_back(out, output)},
               std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                           std::vector<std::int64_t>& output_sizes,
                                                           std::vector<std::int64_t>& input_sizes,
                                                           const c10d::AllToAllOptions& options) {
  check(output);
  check(input);
  check_same_type(output, input, "all_to_all_single");
  const at::Tensor in = readable(input);
  const at::Tensor out = writable(output);
  Collective call;
  call.op = "all_to_all";
  call.type = type_name(input);
  call.in = memory_of(in);
  call.out = memory_of(out);
  // As long as the one who knows no sizes, and the one who does, call the same: sizes are told by all or by
  // none.
  if (!output_sizes.empty() || !input_sizes.empty()) {
    const auto even = [&](const std::vector<std::int64_t>& given, const at::Tensor& tensor) {
      if (!given.empty()) return given;
      TORCH_CHECK(tensor.size(0) % getSize() == 0, "cohort: all_to_all_single: ", tensor.size(0),
                  " rows do not divide by ", getSize(), " ranks: give split sizes");
      return std::vector<std::int64_t>(static_cast<std::size_t>(getSize()), tensor.size(0) / getSize());
    };
    call.op = "all_to_all_vc";
    call.counts = counts_of(even(input_sizes, input), input);
    call.recv_counts = counts_of(even(output_sizes, output), output);
  }
  return start({OpType::ALLTOALL_BASE, "cohort:all_to_all", {in}, {output}, copying_back(out, output)},
               std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::send(Tensors& tensors, int to, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  Message call;
  call.is_send = true;
  call.peer = static_cast<std::uint32_t>(to);
  call.tag = tag;
  const at::Tensor memory = readable(tensor);
  call.data = memory_of(memory);
  return start({OpType::SEND, "cohort:send", {memory}}, call);
}

ProcessGroupCohort::Work ProcessGroupCohort::recv(Tensors& tensors, int from, int tag) {
  const at::Tensor& tensor = only(tensors, "recv");
  Message call;
  call.peer = static_cast<std::uint32_t>(from);
  call.tag = tag;
  const at::Tensor memory = writable(tensor);
  call.data = memory_of(memory);
  return start({OpType::RECV, "cohort:recv", {memory}, tensors, copying_back(memory, tensor)}, call);
}

ProcessGroupCohort::Work ProcessGroupCohort::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = only(tensors, "recv");
  Message call;
  call.is_from_anybody = true;
  call.tag = tag;
  const at::Tensor memory = writable(tensor);
  call.data = memory_of(memory);
  return start(
      {OpType::RECVANYSOURCE, "cohort:recvAnySource", {memory}, tensors, copying_back(memory, tensor)}, call);
}

ProcessGroupCohort::Work ProcessGroupCohort::barrier(const c10d::BarrierOptions& options) {
  Collective call;
  call.op = "barrier";
  return start({OpType::BARRIER, "cohort:barrier"}, std::move(call), how(options));
}

}  // namespace cohort::torch_face
