// SPDX-License-Identifier: Apache-2.0
// Calls of several tensors on a rank.
#include <cohort/bindings/torch/job.h>
#include <cohort/bindings/torch/tensors.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace cohort::torch_face {

using c10d::OpType;

namespace {

bool are_alike(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& one) { return one.scalar_type() == tensors[0].scalar_type(); });
}

using Finish = std::function<void()>;

Finish both(Finish first, Finish second) {
  if (!first || !second) return first ? first : second;
  return [first = std::move(first), second = std::move(second)] {
    first();
    second();
  };
}

/// Throws unless there is an output for each input, `size` times as large, or as small.
void check_coalesced(const std::vector<at::Tensor>& large, const std::vector<at::Tensor>& small, int size,
                     const char* what) {
  TORCH_CHECK(!small.empty() && large.size() == small.size(), "cohort: ", what,
              " takes as many outputs as inputs, not ", large.size(), " and ", small.size());
  for (std::size_t i = 0; i < small.size(); ++i) {
    check(large[i]);
    check(small[i]);
    check_same_type(large[i], small[i], what);
    TORCH_CHECK(large[i].numel() == small[i].numel() * size, "cohort: ", what, ": tensor ", i, " holds ",
                large[i].numel(), " elements for parts of ", small[i].numel(), " of each of ", size,
                " ranks");
  }
}

}  // namespace

ProcessGroupCohort::Work ProcessGroupCohort::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), "cohort: allreduce_coalesced takes tensors");
  for (const at::Tensor& tensor : tensors) {
    check(tensor);
    TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(),
                "cohort: allreduce_coalesced: tensors must all have the same type");
  }
  Collective call = combining("all_reduce", tensors[0], options.reduceOp);
  Job job{OpType::ALLREDUCE_COALESCED, "cohort:all_reduce", {}, tensors};
  for (const at::Tensor& tensor : tensors) {
    job.inputs.push_back(changeable(tensor));
    call.tensors.push_back(memory_of(job.inputs.back()));
    job.finish = both(std::move(job.finish), copying_back(job.inputs.back(), tensor));
  }
  return start(std::move(job), std::move(call), how(options));
}

void ProcessGroupCohort::give_pairs(const Tensors& inputs, Tensors& outputs, Collective& call, Job& job) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor in = readable(inputs[i]);
    const at::Tensor out = writable(outputs[i]);
    call.inputs.push_back(memory_of(in));
    call.tensors.push_back(memory_of(out));
    job.inputs.push_back(in);
    job.finish = both(std::move(job.finish), copying_back(out, outputs[i]));
  }
}

ProcessGroupCohort::Work ProcessGroupCohort::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  check_coalesced(outputs, inputs, getSize(), "allgather_into_tensor_coalesced");
  Collective call;
  call.op = "all_gather";
  call.type = are_alike(inputs) ? type_name(inputs[0]) : kBytes;
  Job job{OpType::COALESCED, "cohort:all_gather_into_tensor_coalesced", {}, outputs};
  give_pairs(inputs, outputs, call, job);
  return start(std::move(job), std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  check_coalesced(inputs, outputs, getSize(), "reduce_scatter_tensor_coalesced");
  TORCH_CHECK(are_alike(inputs),
              "cohort: reduce_scatter_tensor_coalesced: tensors must all have the same type");
  Collective call = combining("reduce_scatter", inputs[0], options.reduceOp);
  Job job{OpType::COALESCED, "cohort:reduce_scatter_tensor_coalesced", {}, outputs};
  give_pairs(inputs, outputs, call, job);
  return start(std::move(job), std::move(call), how(options));
}

/// Parts of several sizes, which every rank knows by its outputs, travel as all_gather_v.
ProcessGroupCohort::Work ProcessGroupCohort::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                       const c10d::AllgatherOptions& options) {
  const at::Tensor& given = only(inputs, "allgather");
  TORCH_CHECK(outputs.size() == 1, "cohort: allgather takes a single list of outputs");
  const bool is_even =
      check_parts(outputs[0], given, place(), static_cast<std::size_t>(getSize()), "allgather");
  const at::Tensor input = readable(given);
  Job job{OpType::ALLGATHER, "cohort:all_gather", {input}, outputs[0]};
  Collective call;
  call.op = is_even ? "all_gather" : "all_gather_v";
  call.type = type_name(input);
  call.in = memory_of(input);
  if (!is_even) call.counts = counts_of(outputs[0]);
  if (is_even) call.blocks = blocks_apart(outputs[0], input, place());
  if (call.blocks.empty() || !ranks_->takes_blocks_apart(input.nbytes())) {
    call.blocks.clear();
    const at::Tensor flat = flat_of(outputs[0], input, place(), scratch_);
    call.out = memory_of(flat);
    job.finish = [flat, results = outputs[0]]() mutable { copy_from_flat(flat, results); };
  }
  return start(std::move(job), std::move(call), how(options));
}

/// The inputs travel as one; `outputs` are the ranks' lists.
ProcessGroupCohort::Work ProcessGroupCohort::allgather_coalesced(std::vector<Tensors>& outputs,
                                                                 Tensors& inputs,
                                                                 const c10d::AllgatherOptions& options) {
  TORCH_CHECK(!inputs.empty(), "cohort: allgather_coalesced takes tensors");
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(getSize()),
              "cohort: allgather_coalesced takes a list of outputs for each rank");
  for (const Tensors& of_rank : outputs) check_pairs(of_rank, inputs, "allgather_coalesced");
  for (const at::Tensor& input : inputs) check(input);
  const at::Tensor own = scratch_.flat_like(inputs);
  copy_to_flat(inputs, own);
  const at::Tensor all =
      scratch_.flat_like(Tensors(static_cast<std::size_t>(getSize()), own)).view({getSize(), own.numel()});
  Collective call;
  call.op = "all_gather";
  call.type = type_name(own);
  call.in = memory_of(own);
  call.out = memory_of(all);
  Job job{OpType::ALLGATHER_COALESCED, "cohort:all_gather", inputs};
  for (const Tensors& of_rank : outputs)
    job.outputs.insert(job.outputs.end(), of_rank.begin(), of_rank.end());
  job.finish = [own, all, results = outputs]() mutable {
    for (std::size_t rank = 0; rank < results.size(); ++rank)
      copy_from_flat(all[static_cast<std::int64_t>(rank)], results[rank]);
  };
  return start(std::move(job), std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                    const c10d::GatherOptions& options) {
  const at::Tensor input = readable(only(inputs, "gather"));
  const bool is_root = getRank() == options.rootRank;
  TORCH_CHECK(outputs.size() == (is_root ? 1 : 0),
              "cohort: gather takes one list of outputs, at the root only");
  Collective call;
  call.op = "gather";
  call.type = type_name(input);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  call.in = memory_of(input);
  Job job{OpType::GATHER, "cohort:gather", {input}};
  if (is_root) {
    check_alike(outputs[0], input, static_cast<std::size_t>(getSize()), "gather");
    const at::Tensor flat = flat_of(outputs[0], input, place(), scratch_);
    call.out = memory_of(flat);
    job.outputs = outputs[0];
    job.finish = [flat, results = outputs[0]]() mutable { copy_from_flat(flat, results); };
  }
  return start(std::move(job), std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ScatterOptions& options) {
  const at::Tensor output = writable(only(outputs, "scatter"));
  const bool is_root = getRank() == options.rootRank;
  TORCH_CHECK(inputs.size() == (is_root ? 1 : 0),
              "cohort: scatter takes one list of inputs, at the root only");
  Collective call;
  call.op = "scatter";
  call.type = type_name(output);
  call.root = static_cast<std::uint32_t>(options.rootRank);
  call.out = memory_of(output);
  Job job{OpType::SCATTER, "cohort:scatter", {output}, outputs, copying_back(output, outputs[0])};
  if (is_root) {
    check_alike(inputs[0], output, static_cast<std::size_t>(getSize()), "scatter");
    const at::Tensor flat = flat_of(inputs[0], output, place(), scratch_);
    copy_to_flat(inputs[0], flat);
    call.in = memory_of(flat);
    job.inputs.push_back(flat);
  }
  return start(std::move(job), std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                            const c10d::ReduceScatterOptions& options) {
  const at::Tensor output = writable(only(outputs, "reduce_scatter"));
  TORCH_CHECK(inputs.size() == 1, "cohort: reduce_scatter takes a single list of inputs");
  TORCH_CHECK(inputs[0].size() == static_cast<std::size_t>(getSize()),
              "cohort: reduce_scatter takes a tensor for each rank");
  for (const at::Tensor& input : inputs[0]) check(input);
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
  return start(
      {OpType::REDUCE_SCATTER, "cohort:reduce_scatter", {flat}, outputs, copying_back(output, outputs[0])},
      std::move(call), how(options));
}

ProcessGroupCohort::Work ProcessGroupCohort::alltoall(Tensors& outputs, Tensors& inputs,
                                                      const c10d::AllToAllOptions& options) {
  const auto size = static_cast<std::size_t>(getSize());
  TORCH_CHECK(inputs.size() == size && outputs.size() == size,
              "cohort: all_to_all takes a tensor for each rank");
  for (const auto* const tensors : {&inputs, &outputs})
    for (const at::Tensor& tensor : *tensors) {
      check(tensor);
      check_same_type(tensor, inputs[0], "all_to_all");
    }
  const at::Tensor in = scratch_.flat_like(inputs);
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
  return start({OpType::ALLTOALL, "cohort:all_to_all", {in}, outputs, std::move(finish)}, std::move(call),
               how(options));
}

}  // namespace cohort::torch_face
