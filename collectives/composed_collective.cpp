// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/composed_collective.h>

#include <cohort/collectives/call/communicator_core.h>

namespace cohort {

template <class Request>
ComposedCollective<Request>::ComposedCollective(CommunicatorCore& core, const Request& call)
    : core_(nullptr), call_(call) {
  core.check(call_);
  core_ = &core;
}

/// What cannot be run need not be awaited.
template <class Request>
ComposedCollective<Request>&& ComposedCollective<Request>::with_algorithm(std::string_view algorithm) && {
  CommunicatorCore* const core = std::exchange(core_, nullptr);
  call_.algorithm = algorithm;
  core->check(call_);
  const AnyAlgorithm* const found = core->algorithms().find(call_.op, algorithm);
  // For as long as the communicator lives; an empty name asks for none.
  call_.algorithm = found == nullptr ? std::string_view() : found->name();
  core_ = core;
  return std::move(*this);
}

template <class Request>
void ComposedCollective<Request>::start() {
  COHORT_ASSERT(core_ != nullptr, "this {} was awaited or moved from before", to_string(call_.op));
  CommunicatorCore& core = *std::exchange(core_, nullptr);
  core.assert_is_on_engine(call_.op);
  task_ = core.run(call_);
}

template <class Request>
void ComposedCollective<Request>::report_never_awaited() const noexcept {
  core_->report_never_awaited(call_.op);
}

template <class Request>
Task<> ComposedCollective<Request>::await_as_task(ComposedCollective collective) {
  co_await std::move(collective);
}

template class ComposedCollective<TensorCall>;
template class ComposedCollective<FunctionCall>;

}  // namespace cohort
