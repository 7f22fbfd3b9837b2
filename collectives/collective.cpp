// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/collective.h>

#include <cohort/collectives/call/communicator_core.h>

namespace cohort {

Collective::Collective(CommunicatorCore& core, Operator op, const CallArguments& arguments)
    : core_(&core), call_(make_call(op, arguments, core.membership().rank, core.membership().size)) {
  call_.algorithm = &core.select(call_, {});
}

/// What cannot be run need not be awaited.
Collective&& Collective::with_algorithm(std::string_view algorithm) && {
  CommunicatorCore* const core = std::exchange(core_, nullptr);
  call_.algorithm = &core->select(call_, algorithm);
  call_.is_algorithm_forced = true;
  core_ = core;
  return std::move(*this);
}

std::string_view Collective::algorithm() const& noexcept { return call_.algorithm->name(); }

bool Collective::complete_now(const CancelScope* scope) {
  COHORT_ASSERT(core_ != nullptr, "this {} was awaited or moved from before", to_string(call_.op));
  CommunicatorCore& core = *std::exchange(core_, nullptr);
  core.assert_is_on_engine(call_.op);
  bool has_begun = false;
  const bool may_begin = scope == nullptr || !scope->is_cancelled();
  if (may_begin && core.try_complete_now(call_, has_begun)) return true;
  task_ = core.run(call_, has_begun);
  return false;
}

void Collective::report_never_awaited() const noexcept { core_->report_never_awaited(call_.op); }

}  // namespace cohort
