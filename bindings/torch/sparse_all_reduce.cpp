// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/job.h>
#include <cohort/bindings/torch/tensors.h>

#include <ATen/ATen.h>

#include <utility>

namespace cohort::torch_face {
namespace {

constexpr std::int64_t kMostDimensions = 16;

/// Elements, sparse dimensions, dimensions, and their sizes: of one length for all tensors.
at::Tensor shape_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.dim() <= kMostDimensions, "cohort: allreduce: a sparse tensor of ", tensor.dim(),
              " dimensions; at most ", kMostDimensions);
  std::vector<std::int64_t> words{tensor._nnz(), tensor.sparse_dim(), tensor.dim()};
  words.insert(words.end(), tensor.sizes().begin(), tensor.sizes().end());
  words.resize(3 + kMostDimensions, 0);
  return at::tensor(words, at::kLong);
}

/// Of so many elements in place of its own.
at::Tensor room_for(const at::Tensor& rows, std::int64_t count) {
  std::vector<std::int64_t> sizes = rows.sizes().vec();
  sizes[0] = count;
  return at::empty(sizes, rows.options());
}

}  // namespace

/// Every rank's rows, one rank behind the other.
ProcessGroupCohort::Work ProcessGroupCohort::gather_rows(Job job, const at::Tensor& mine,
                                                         const std::vector<std::int64_t>& rows,
                                                         const at::Tensor& all, How how) {
  Collective call;
  call.op = "all_gather_v";
  call.type = type_name(mine);
  call.counts = counts_of(rows, all);
  call.in = memory_of(mine);
  call.out = memory_of(all);
  job.inputs.push_back(mine);
  job.inputs.push_back(all);
  return start(std::move(job), std::move(call), how);
}

/// Ranks hold other elements and other numbers of them. The numbers are asked for before this returns, by a
/// call that waits for all ranks: a second one that was started later, by itself, would come between other
/// calls. Elements in one place are added in the order of ranks, on every rank.
ProcessGroupCohort::Work ProcessGroupCohort::allreduce_sparse(Tensors& tensors,
                                                              const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "cohort: allreduce takes a single sparse tensor on each rank, not ",
              tensors.size());
  const at::Tensor& tensor = tensors[0];
  TORCH_CHECK(options.reduceOp.op_ == c10d::ReduceOp::RedOpType::SUM,
              "cohort: allreduce: sparse tensors can be added only");
  TORCH_CHECK(tensor.layout() == at::kSparse && tensor.device().is_cpu(),
              "cohort: allreduce takes sparse tensors in coordinate format, in CPU memory");
  const at::NoGradGuard no_gradients;
  const at::Tensor own = tensor.coalesce();
  at::Tensor shape = shape_of(own);
  at::Tensor shapes = at::empty({getSize(), shape.size(0)}, at::kLong);
  c10d::AllgatherOptions asking;
  asking.timeout = options.timeout;
  _allgather_base(shapes, shape, asking)->wait();

  std::vector<std::int64_t> rows;
  std::int64_t count = 0;
  for (int rank = 0; rank < getSize(); ++rank) {
    const at::Tensor theirs = shapes[rank];
    TORCH_CHECK(at::equal(theirs.slice(0, 1), shape.slice(0, 1)), "cohort: allreduce: rank ", rank,
                " gave a sparse tensor of another shape than rank ", getRank(),
                ": give tensors of one shape, with as many sparse dimensions");
    rows.push_back(theirs[0].item<std::int64_t>());
    count += rows.back();
  }
  const at::Tensor places = own.indices().t().contiguous();
  const at::Tensor values = own.values().contiguous();
  const at::Tensor all_places = room_for(places, count);
  const at::Tensor all_values = room_for(values, count);
  // Calls of a group end in their order: the second's end is both's.
  gather_rows({c10d::OpType::ALLGATHER, nullptr}, places, rows, all_places, {options.timeout, true});
  auto finish = [all_places, all_values, result = tensor]() mutable {
    const at::NoGradGuard none;
    result.copy_(at::sparse_coo_tensor(all_places.t(), all_values, result.sizes()).coalesce());
  };
  Job job{c10d::OpType::ALLREDUCE, "cohort:sparse_all_reduce", {tensor}, {tensor}, std::move(finish)};
  return gather_rows(std::move(job), values, rows, all_values, how(options));
}

}  // namespace cohort::torch_face
