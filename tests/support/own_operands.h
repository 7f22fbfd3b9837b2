// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/fault.h>

#include <memory>
#include <vector>

namespace cohort::test {

/// Operands that a planted fault edits: those of copies and reductions lie in lists of the schedule's own,
/// which must not change. Copies share what they hold, for closures.
class OwnOperands {
 public:
  /// Gives the task operands of its own, copies of those that it has, as `edit(outputs, inputs)` leaves them.
  /// Returns what that returns.
  template <class Edit>
  check::Fate change(check::TaskRequest& request, Edit edit) const {
    std::vector<PlacedSlice>& outputs = lists_->outputs;
    std::vector<PlacedSlice>& inputs = lists_->inputs;
    outputs.assign(request.outputs.begin(), request.outputs.end());
    inputs.assign(request.inputs.begin(), request.inputs.end());
    const check::Fate fate = edit(outputs, inputs);
    request.outputs = outputs;
    request.inputs = inputs;
    return fate;
  }

 private:
  struct Lists {
    std::vector<PlacedSlice> outputs;
    std::vector<PlacedSlice> inputs;
  };
  std::shared_ptr<Lists> lists_ = std::make_shared<Lists>();
};

}  // namespace cohort::test
