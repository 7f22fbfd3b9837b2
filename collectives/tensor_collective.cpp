// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/tensor_collective.h>

#include <cohort/collectives/call/communicator_core.h>

namespace cohort {

TensorCollective::TensorCollective(CommunicatorCore& core, const TensorCall& call)
    : core_(nullptr), call_(call) {
  core.check(call_);
  core_ = &core;
}

/// What cannot be run need not be awaited.
TensorCollective&& TensorCollective::with_algorithm(std::string_view algorithm) && {
  CommunicatorCore* const core = std::exchange(core_, nullptr);
  call_.algorithm = algorithm;
  core->check(call_);
  const AnyAlgorithm* const found = core->algorithms().find(call_.op, algorithm);
  call_.algorithm = found->name();  // for as long as the communicator lives
  core_ = core;
  return std::move(*this);
}

void TensorCollective::start() {
  COHORT_ASSERT(core_ != nullptr, "this {} was awaited or moved from before", to_string(call_.op));
  CommunicatorCore& core = *std::exchange(core_, nullptr);
  core.assert_is_on_engine(call_.op);
  task_ = core.run(call_);
}

void TensorCollective::report_never_awaited() const noexcept { core_->report_never_awaited(call_.op); }

Task<> TensorCollective::await_as_task(TensorCollective collective) { co_await std::move(collective); }

}  // namespace cohort
