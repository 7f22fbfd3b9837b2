// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/process_group.h>

#include <cohort/bindings/torch/job.h>
#include <cohort/bindings/torch/tensors.h>
#include <cohort/bindings/torch/work.h>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

namespace cohort::torch_face {

using c10d::OpType;

namespace {

/// "label:op", as long as the process: profilers keep the pointer.
const char* profiling_title(const std::string& label, const char* op) {
  static std::mutex mutex;
  static std::set<std::string> titles;
  const std::lock_guard<std::mutex> lock(mutex);
  return titles.insert(label + ":" + op).first->c_str();
}

}  // namespace

ProcessGroupCohort::ProcessGroupCohort(std::shared_ptr<Ranks> ranks, int rank, int size,
                                       std::chrono::milliseconds timeout, std::string label)
    : Backend(rank, size),
      ranks_(std::move(ranks)),
      scratch_(ranks_),
      timeout_s_(std::chrono::duration<double>(timeout).count()),
      label_(std::move(label)) {
  init();
}

template <class Call>
ProcessGroupCohort::Work ProcessGroupCohort::launch(Job job, Call call) {
  // Profilers are told of calls by their title: without one there is nothing to make.
  const bool is_shown = job.title != nullptr && at::hasCallbacks();
  const char* const title = is_shown ? profiling_title(label_, job.title) : nullptr;
  auto work = c10::make_intrusive<CohortWork>(getRank(), job.type, title, std::move(job.inputs),
                                              std::move(job.outputs), std::move(job.finish), call.timeout_s);
  work->start([&](auto over) { return ranks_->start(std::move(call), std::move(over)); });
  return work;
}

ProcessGroupCohort::Work ProcessGroupCohort::start(Job job, Collective call,
                                                   std::chrono::milliseconds timeout) {
  ++sequence_;
  call.timeout_s =
      timeout > std::chrono::milliseconds(0) ? std::chrono::duration<double>(timeout).count() : timeout_s_;
  return launch(std::move(job), std::move(call));
}

ProcessGroupCohort::Work ProcessGroupCohort::start(Job job, Message call) {
  if (call.timeout_s <= 0) call.timeout_s = timeout_s_;
  return launch(std::move(job), std::move(call));
}

Collective ProcessGroupCohort::combining(const char* op, const at::Tensor& tensor,
                                         const c10d::ReduceOp& reduction) const {
  using Kind = c10d::ReduceOp::RedOpType;
  Collective call;
  call.op = op;
  call.type = type_name(tensor);
  const bool is_bool = tensor.scalar_type() == at::kBool;
  const bool adds =
      reduction.op_ == Kind::SUM || reduction.op_ == Kind::AVG || reduction.op_ == Kind::PREMUL_SUM;
  TORCH_CHECK(!tensor.is_complex() || adds, "cohort: ", op, ": complex numbers can be added only");
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
      const auto* const factors = static_cast<c10d::PreMulSumSupplement*>(reduction.supplement_.get());
      TORCH_CHECK(factors != nullptr && !factors->tensor_factor.defined(),
                  "cohort: PREMUL_SUM takes a number for its factor");
      call.reduce = "scaled_sum";
      call.factor = factors->double_factor;
      break;
    }
    default: TORCH_CHECK(false, "cohort: ", op, " with an unknown reduction");
  }
  return call;
}

ProcessGroupCohort::Work ProcessGroupCohort::broadcast(Tensors& tensors,
                                                       const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  Collective call;
  call.op = "broadcast";
  call.type = type_name(tensor);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  call.out = memory_of(tensor);
  return start({OpType::BROADCAST, "broadcast", tensors, tensors}, std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::allreduce(Tensors& tensors,
                                                       const c10d::AllreduceOptions& options) {
  if (tensors.size() > 1) {
    c10d::AllreduceCoalescedOptions coalesced;
    coalesced.reduceOp = options.reduceOp;
    coalesced.timeout = options.timeout;
    return allreduce_coalesced(tensors, coalesced);
  }
  TORCH_CHECK(!tensors.empty(), "cohort: allreduce takes a tensor");
  if (tensors[0].is_sparse()) return allreduce_sparse(tensors[0], options);
  const at::Tensor& tensor = only(tensors, "allreduce");
  Collective call = combining("all_reduce", tensor, options.reduceOp);
  call.in = call.out = memory_of(tensor);
  return start({OpType::ALLREDUCE, "all_reduce", tensors, tensors}, std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), "cohort: allreduce_coalesced takes tensors");
  Collective call = combining("all_reduce", tensors[0], options.reduceOp);
  for (const at::Tensor& tensor : tensors) {
    check(tensor);
    TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(),
                "cohort: allreduce_coalesced: tensors must all have the same type");
    call.tensors.push_back(memory_of(tensor));
  }
  return start({OpType::ALLREDUCE_COALESCED, "all_reduce", tensors, tensors}, std::move(call),
               options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "reduce");
  Collective call = combining("reduce", tensor, options.reduceOp);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  call.in = call.out = memory_of(tensor);
  return start({OpType::REDUCE, "reduce", tensors, tensors}, std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                       const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs, "allgather");
  TORCH_CHECK(outputs.size() == 1, "cohort: allgather takes a single list of outputs");
  check_alike(outputs[0], input, static_cast<std::size_t>(getSize()), "allgather");
  Job job{OpType::ALLGATHER, "all_gather", inputs, outputs[0]};
  Collective call;
  call.op = "all_gather";
  call.type = type_name(input);
  call.in = memory_of(input);
  call.blocks = blocks_apart(outputs[0], input, place());
  if (call.blocks.empty() || !ranks_->takes_blocks_apart(input.nbytes())) {
    call.blocks.clear();
    const at::Tensor flat = flat_of(outputs[0], input, place(), scratch_);
    call.out = memory_of(flat);
    job.finish = [flat, results = outputs[0]]() mutable { copy_from_flat(flat, results); };
  }
  return start(std::move(job), std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                             const c10d::AllgatherOptions& options) {
  check(output);
  check(input);
  check_same_type(output, input, "all_gather_into_tensor");
  TORCH_CHECK(output.numel() == input.numel() * getSize(),
              "cohort: all_gather_into_tensor: the output holds ", output.numel(), " elements; give ",
              input.numel() * getSize(), ", for the input of each of ", getSize(), " ranks");
  Collective call;
  call.op = "all_gather";
  call.type = type_name(input);
  call.in = memory_of(input);
  call.out = memory_of(output);
  return start({OpType::_ALLGATHER_BASE, "_all_gather_base", {input}, {output}}, std::move(call),
               options.timeout);
}

/// The inputs travel as one; `outputs` are the ranks' lists.
ProcessGroupCohort::Work ProcessGroupCohort::allgather_coalesced(std::vector<Tensors>& outputs,
                                                                 Tensors& inputs,
                                                                 const c10d::AllgatherOptions& options) {
  TORCH_CHECK(!inputs.empty(), "cohort: allgather_coalesced takes tensors");
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(getSize()),
              "cohort: allgather_coalesced takes a list of outputs for each rank");
  for (const Tensors& of_rank : outputs) check_pairs(of_rank, inputs, "allgather_coalesced");
  const at::Tensor own = scratch_.flat_like(inputs);
  copy_to_flat(inputs, own);
  const at::Tensor all =
      scratch_.flat_like(Tensors(static_cast<std::size_t>(getSize()), own)).view({getSize(), own.numel()});
  Collective call;
  call.op = "all_gather";
  call.type = type_name(own);
  call.in = memory_of(own);
  call.out = memory_of(all);
  Job job{OpType::ALLGATHER_COALESCED, "all_gather", inputs};
  for (const Tensors& of_rank : outputs)
    job.outputs.insert(job.outputs.end(), of_rank.begin(), of_rank.end());
  job.finish = [own, all, results = outputs]() mutable {
    for (std::size_t rank = 0; rank < results.size(); ++rank)
      copy_from_flat(all[static_cast<std::int64_t>(rank)], results[rank]);
  };
  return start(std::move(job), std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                    const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs, "gather");
  const bool is_root = getRank() == options.rootRank;
  TORCH_CHECK(outputs.size() == (is_root ? 1 : 0),
              "cohort: gather takes one list of outputs, at the root only");
  Collective call;
  call.op = "gather";
  call.type = type_name(input);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  call.in = memory_of(input);
  Job job{OpType::GATHER, "gather", inputs};
  if (is_root) {
    check_alike(outputs[0], input, static_cast<std::size_t>(getSize()), "gather");
    const at::Tensor flat = flat_of(outputs[0], input, place(), scratch_);
    call.out = memory_of(flat);
    job.outputs = outputs[0];
    job.finish = [flat, results = outputs[0]]() mutable { copy_from_flat(flat, results); };
  }
  return start(std::move(job), std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(outputs, "scatter");
  const bool is_root = getRank() == options.rootRank;
  TORCH_CHECK(inputs.size() == (is_root ? 1 : 0),
              "cohort: scatter takes one list of inputs, at the root only");
  Collective call;
  call.op = "scatter";
  call.type = type_name(output);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  call.out = memory_of(output);
  Job job{OpType::SCATTER, "scatter", outputs, outputs};
  if (is_root) {
    check_alike(inputs[0], output, static_cast<std::size_t>(getSize()), "scatter");
    const at::Tensor flat = flat_of(inputs[0], output, place(), scratch_);
    copy_to_flat(inputs[0], flat);
    call.in = memory_of(flat);
    job.inputs = {flat};
  }
  return start(std::move(job), std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                            const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1, "cohort: reduce_scatter takes a single list of inputs");
  TORCH_CHECK(inputs[0].size() == static_cast<std::size_t>(getSize()),
              "cohort: reduce_scatter takes a tensor for each rank");
  check_same_type(output, inputs[0][0], "reduce_scatter");
  const at::Tensor flat = flat_of(inputs[0], output, place(), scratch_);
  copy_to_flat(inputs[0], flat);
  std::vector<std::size_t> counts = counts_of(inputs[0]);
  const bool is_even =
      std::all_of(counts.begin(), counts.end(), [&](auto count) { return count == counts[0]; });
  Collective call = combining(is_even ? "reduce_scatter" : "reduce_scatter_v", output, options.reduceOp);
  if (!is_even) call.counts = std::move(counts);
  call.in = memory_of(flat);
  call.out = memory_of(output);
  return start({OpType::REDUCE_SCATTER, "reduce_scatter", {flat}, outputs}, std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                  const c10d::ReduceScatterOptions& options) {
  check(output);
  check(input);
  check_same_type(output, input, "reduce_scatter_tensor");
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "cohort: reduce_scatter_tensor: the input holds ",
              input.numel(), " elements; give ", output.numel() * getSize(), ", for the output of each of ",
              getSize(), " ranks");
  Collective call = combining("reduce_scatter", output, options.reduceOp);
  call.in = memory_of(input);
  call.out = memory_of(output);
  return start({OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", {input}, {output}}, std::move(call),
               options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                           std::vector<std::int64_t>& output_sizes,
                                                           std::vector<std::int64_t>& input_sizes,
                                                           const c10d::AllToAllOptions& options) {
  check(output);
  check(input);
  Collective call;
  call.op = "all_to_all";
  call.type = type_name(input);
  call.in = memory_of(input);
  call.out = memory_of(output);
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
  return start({OpType::ALLTOALL_BASE, "all_to_all", {input}, {output}}, std::move(call), options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::alltoall(Tensors& outputs, Tensors& inputs,
                                                      const c10d::AllToAllOptions& options) {
  const auto size = static_cast<std::size_t>(getSize());
  TORCH_CHECK(inputs.size() == size && outputs.size() == size,
              "cohort: all_to_all takes a tensor for each rank");
  at::Tensor in = scratch_.flat_like(inputs);
  copy_to_flat(inputs, in);
  const at::Tensor out = scratch_.flat_like(outputs);
  Collective call;
  call.op = "all_to_all_vc";
  call.type = type_name(in);
  call.in = memory_of(in);
  call.out = memory_of(out);
  call.counts = counts_of(inputs);
  call.recv_counts = counts_of(outputs);
  auto finish = [out, results = outputs]() mutable { copy_from_flat(out, results); };
  return start({OpType::ALLTOALL, "all_to_all", {in}, outputs, std::move(finish)}, std::move(call),
               options.timeout);
}

ProcessGroupCohort::Work ProcessGroupCohort::send(Tensors& tensors, int to, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  Message call;
  call.is_send = true;
  call.peer = static_cast<std::uint32_t>(to);
  call.tag = tag;
  call.data = memory_of(tensor);
  return start({OpType::SEND, "send", tensors, {}}, call);
}

ProcessGroupCohort::Work ProcessGroupCohort::recv(Tensors& tensors, int from, int tag) {
  const at::Tensor& tensor = only(tensors, "recv");
  Message call;
  call.peer = static_cast<std::uint32_t>(from);
  call.tag = tag;
  call.data = memory_of(tensor);
  return start({OpType::RECV, "recv", tensors, tensors}, call);
}

ProcessGroupCohort::Work ProcessGroupCohort::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = only(tensors, "recv");
  Message call;
  call.is_from_anybody = true;
  call.tag = tag;
  call.data = memory_of(tensor);
  return start({OpType::RECVANYSOURCE, "recvAnySource", tensors, tensors}, call);
}

ProcessGroupCohort::Work ProcessGroupCohort::barrier(const c10d::BarrierOptions& options) {
  Collective call;
  call.op = "barrier";
  return start({OpType::BARRIER, "barrier"}, std::move(call), options.timeout);
}

}  // namespace cohort::torch_face
