// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/collective.h>

#include <cohort/collectives/call/communicator_core.h>

namespace cohort {

Collective::Collective(CommunicatorCore& core, Operator op, const CallArguments& arguments)
    : core_(&core), call_(make_call(op, arguments, core.membership().rank, core.membership().size)) {
  call_.algorithm = &core.select(call_, {});
}

Collective&& Collective::with_algorithm(std::string_view algorithm) && {
  call_.algorithm = &core_->select(call_, algorithm);
  return std::move(*this);
}

std::string_view Collective::algorithm() const noexcept { return call_.algorithm->name(); }

bool Collective::complete_now(const CancelScope* scope) {
  const bool may_begin = scope == nullptr || !scope->is_cancelled();
  if (may_begin && core_->try_complete_now(call_, has_begun_)) return true;
  task_ = core_->run(call_, has_begun_);
  return false;
}

}  // namespace cohort
