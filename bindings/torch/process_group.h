// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/face.h>
#include <cohort/bindings/torch/scratch.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace cohort::torch_face {

/// torch.distributed's backend "cohort": every call of the interface of PyTorch 1.13 on tensors in CPU
/// memory.
///
/// Calls start where they are made and go on by themselves. Work::wait() drives them in the caller's thread.
class ProcessGroupCohort final : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  /// `label` is the name of the backend, by which profilers show calls, too: "label:all_reduce".
  ProcessGroupCohort(std::shared_ptr<Ranks> ranks, int rank, int size, std::chrono::milliseconds timeout,
                     std::string label);

  const std::string getBackendName() const override { return label_; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override {
    Work last;
    for (std::size_t i = 0; i < outputs.size(); ++i) last = _allgather_base(outputs[i], inputs[i], options);
    return last;
  }
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override {
    Work last;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      last = _reduce_scatter_base(outputs[i], inputs[i], options);
    return last;
  }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                     std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  /// Every rank reports to rank 0, which names those that have not come: its first, or all of them. The group
  /// cannot be used after a failure.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool waits_for_all) override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

  const std::shared_ptr<Ranks>& ranks() const noexcept { return ranks_; }

 private:
  struct Job;
  /// Of its own tensor in lists of the ranks'.
  std::size_t place() const noexcept { return static_cast<std::size_t>(getRank()); }
  Work start(Job job, Collective call, std::chrono::milliseconds timeout);
  Work start(Job job, Message call);
  template <class Call>
  Work launch(Job job, Call call);
  Work allreduce_sparse(const at::Tensor& tensor, const c10d::AllreduceOptions& options);
  Work gather_rows(Job job, const at::Tensor& mine, const std::vector<std::int64_t>& rows,
                   const at::Tensor& all, std::chrono::milliseconds timeout);
  Work pass_word(bool is_send, int peer, std::chrono::milliseconds timeout);
  void hear_everybody(std::chrono::milliseconds timeout, bool waits_for_all);
  Collective combining(const char* op, const at::Tensor& tensor, const c10d::ReduceOp& reduction) const;

  c10::intrusive_ptr<Options> options_ = c10::make_intrusive<Options>("cohort");
  std::shared_ptr<Ranks> ranks_;
  Scratch scratch_;
  double timeout_s_;
  const std::string label_;
  std::atomic<std::uint64_t> sequence_{0};  ///< threads may share the group
};

}  // namespace cohort::torch_face
