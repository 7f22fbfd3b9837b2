// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/machine.h>
#include <cohort/collectives/schedules/exec.h>
#include <cohort/collectives/schedules/operators/operator.h>

#include <memory>
#include <vector>

namespace cohort::check {

/// One rank on a Machine: the Exec that its schedule runs on.
class RankExec final : public Exec {
 public:
  RankExec(Machine& machine, Rank rank);
  ~RankExec() override;

  /// An operation behind so many others.
  void begin(std::uint32_t operations);
  /// Brings this rank's input as it arrives, or refers to it.
  void announce(const AnyAlgorithm& algorithm, const OperatorArguments& arguments);
  /// Before it brings anything: of an operation that did not wait for all, all have come to the last one.
  [[nodiscard]] Task<> catch_up();
  /// The ranks of a mapped group meet before the schedule.
  [[nodiscard]] Task<> meet();

  [[nodiscard]] const Hosts& hosts() const override;
  [[nodiscard]] Link& link(Rank peer, Lane lane) override;
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return machine_.plan().ccl_bytes; }
  [[nodiscard]] Task<> pull(Rank peer, Slice to, Slice from) override;
  [[nodiscard]] Task<> push(Rank peer, Slice to, Slice from) override;
  [[nodiscard]] Reducer reducer(const Combine& combine) const noexcept override;
  [[nodiscard]] Task<> phase() override;
  void perform(const LocalStep& step) override;

 private:
  class OneLink;

  void reach(TaskKind kind, const PlacedSlice& to, const PlacedSlice& from);

  Machine& machine_;
  std::uint32_t operations_before_ = 0;
  std::vector<std::unique_ptr<OneLink>> links_;
};

}  // namespace cohort::check
