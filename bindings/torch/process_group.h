// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/coalescing.h>
#include <cohort/bindings/torch/face.h>
#include <cohort/bindings/torch/flight_recorder.h>
#include <cohort/bindings/torch/scratch.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cohort::torch_face {

/// torch.distributed's backend "cohort": every call of its interface on tensors in CPU memory.
///
/// Calls start where they are made and go on by themselves. Work::wait() drives them in the caller's thread.
/// Those whose options say that they are not asynchronous are over when they return, and give no Work.
class ProcessGroupCohort final : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Group = c10::intrusive_ptr<c10d::Backend>;
  using Tensors = std::vector<at::Tensor>;

  struct Settings {
    std::chrono::milliseconds timeout;
    std::string name;
    std::vector<std::uint64_t> world_ranks{};
  };

  ProcessGroupCohort(std::shared_ptr<Ranks> ranks, int rank, int size, const Settings& settings);

  const std::string getBackendName() const override { return "cohort"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override;
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
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

  void setTimeout(std::chrono::milliseconds timeout) override;
  void enableCollectivesTiming() override { is_timed_ = true; }
  c10d::ErrorType getError() override;
  /// Calls of all ranks end, those that are waited for at once.
  void abort() override;
  /// No call can be made any more; those under way go on.
  void shutdown() override { ranks_->leave(); }

  void startCoalescing() override { coalescing_.start(); }
  Work endCoalescing() override { return coalescing_.end(); }

  bool supportsSplitting() const override { return true; }
  /// The group of these of its ranks; called by all of its ranks, null for those that are not among them.
  Group split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
              const c10::intrusive_ptr<Options>& options) override;
  /// A group of ranks that have nothing but the store in common.
  Group merge(const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Options>& options,
              const int& rank, const int& size) override;
  bool supportsShrinking() const override { return true; }
  /// The group of the others, also after a failure; called by those alone. With kShrinkAborts what is under
  /// way here ends before.
  Group shrink(const std::vector<std::int64_t>& excluded, int flags,
               const c10::intrusive_ptr<Options>& options) override;
  static constexpr int kShrinkAborts = 1;

  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  /// In memory that peers of this host map, where there is room.
  at::Tensor allocateTensor(long count, at::TensorOptions options) override;

  const std::shared_ptr<Ranks>& ranks() const noexcept { return ranks_; }
  /// Of its calls; null where nothing is recorded.
  const std::shared_ptr<GroupRecord>& recorder() const noexcept { return recorder_; }
  /// Of its calls.
  double timeout_s() const noexcept { return timeout_s_; }

  /// How merge() joins, of the module's: a store, this rank, how many there are, settings.
  using Meeting =
      std::function<Group(const c10::intrusive_ptr<c10d::Store>&, int, int, const Settings& settings)>;
  static void set_meeting(Meeting meeting);

 private:
  struct Job;
  /// What options of every call have.
  struct How {
    std::chrono::milliseconds timeout;
    bool is_async;
  };
  template <class CallOptions>
  static How how(const CallOptions& options) {
    return {options.timeout, options.asyncOp};
  }
  /// Of its own tensor in lists of the ranks'.
  std::size_t place() const noexcept { return static_cast<std::size_t>(getRank()); }
  /// Each input with its output, in one call.
  static void give_pairs(const Tensors& inputs, Tensors& outputs, Collective& call, Job& job);
  Work start(Job job, Collective call, How how);
  Work start(Job job, Message call);
  template <class Call>
  Work launch(Job job, Call call, const std::string& peers);
  std::shared_ptr<RecordedCall> record(const Job& job, double timeout_s, const std::string& peers) const;
  Work gather_rows(Job job, const at::Tensor& mine, const std::vector<std::int64_t>& rows,
                   const at::Tensor& all, How how);
  Work pass_word(bool is_send, int peer, std::chrono::milliseconds timeout);
  void hear_everybody(std::chrono::milliseconds timeout, bool waits_for_all);
  Collective combining(const char* op, const at::Tensor& tensor, const c10d::ReduceOp& reduction) const;
  Group make_group(const std::vector<int>& ranks, const std::string& name,
                   const c10::intrusive_ptr<Options>& options);
  Settings settings_of(const c10::intrusive_ptr<Options>& options, const std::string& name) const;

  std::shared_ptr<Ranks> ranks_;
  const std::shared_ptr<GroupRecord> recorder_;
  Scratch scratch_;
  Coalescing coalescing_;
  const c10::intrusive_ptr<Options> options_;
  std::atomic<double> timeout_s_;
  std::atomic<std::uint64_t> sequence_{0};  ///< threads may share the group
  std::atomic<bool> is_timed_{false};
};

}  // namespace cohort::torch_face
