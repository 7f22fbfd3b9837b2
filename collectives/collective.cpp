// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/collective.h>

#include <cohort/collectives/core/communicator_core.h>

namespace cohort {

template <class Request>
CollectiveOf<Request>::CollectiveOf(CommunicatorCore& core, Operator op,
                                    const CallArguments& arguments) requires std::same_as<Request, Call>
    : core_(&core), call_(make_call(op, arguments, core.membership().rank, core.membership().size)) {
  core.choices().choose_first(call_);
}

template <class Request>
CollectiveOf<Request>::CollectiveOf(CommunicatorCore& core,
                                    const Request& request) requires(!std::same_as<Request, Call>)
    : core_(&core), call_(request) {
  core.choices().choose_first(call_);
}

/// What cannot be run need not be awaited.
template <class Request>
CollectiveOf<Request>&& CollectiveOf<Request>::with_algorithm(std::string_view algorithm) && {
  CommunicatorCore* const core = std::exchange(core_, nullptr);
  core->choices().choose(call_, algorithm);
  core_ = core;
  return std::move(*this);
}

template <class Request>
CollectiveOf<Request>&& CollectiveOf<Request>::with_determinism(Determinism level) && {
  CommunicatorCore* const core = std::exchange(core_, nullptr);
  core->choices().determine(call_, level);
  core_ = core;
  return std::move(*this);
}

template <class Request>
std::string_view CollectiveOf<Request>::algorithm() const& noexcept requires std::same_as<Request, Call> {
  return call_.algorithm->name();
}

template <class Request>
bool CollectiveOf<Request>::complete_now(const CancelScope* scope) {
  COHORT_ASSERT(core_ != nullptr, "this {} was awaited or moved from before", to_string(call_.op));
  CommunicatorCore& core = *std::exchange(core_, nullptr);
  core.assert_is_on_engine(call_.op);
  bool has_begun = false;
  if constexpr (std::same_as<Request, Call>) {
    const bool may_begin = scope == nullptr || !scope->is_cancelled();
    if (may_begin && core.try_complete_now(call_, has_begun)) return true;
  }
  task_ = core.run(&call_, has_begun);
  return false;
}

template <class Request>
void CollectiveOf<Request>::report_never_awaited() const noexcept {
  core_->report_never_awaited(call_.op);
}

template class CollectiveOf<Call>;
template class CollectiveOf<TensorCall>;
template class CollectiveOf<FunctionCall>;

}  // namespace cohort
