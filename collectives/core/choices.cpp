// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/choices.h>

#include <cohort/collectives/core/function_reducer.h>
#include <cohort/collectives/job/resolved_options.h>

#include <fmt/format.h>

namespace cohort {

Choices::Choices(const CommunicatorOptions& options, const Membership& membership)
    : membership_(membership),
      algorithms_(table_of(options)),
      forced_(options.algorithm, algorithms_),
      determinism_(options.determinism) {}

void Choices::check(const CommunicatorOptions& options) {
  (void)ForcedAlgorithms(options.algorithm, table_of(options));
}

void Choices::choose(TensorCall& call, std::string_view forced) {
  asked_tensors_.begin(call, membership_.rank, membership_.size);
  call.algorithm = {};
  if (forced.empty()) return;
  while (const std::optional<TensorPlan::Message> message = asked_tensors_.next()) {
    const std::size_t elements = message->count * call.op.elements_per_count(membership_.size);
    const std::size_t bytes = elements * size_bytes(call.arguments.out.type);
    Call one = make_call_of_size(call.op, call.arguments.out.type, bytes, membership_.size);
    one.reduce = call.arguments.reduce.op;
    one.ask_for(call.determinism);
    call.algorithm = select(one, forced).name();  // for as long as the communicator lives
  }
}

void Choices::choose(FunctionCall& call, std::string_view forced) const {
  FunctionReducer::check(call, forced);
  (void)FunctionReducer::whole_of(call, membership_.rank, membership_.size);
}

void Choices::joined() {
  unmeasured_ = reach_;
  unmeasured_.slots = SlotCrossover();
  if (!reach_.is_host_wide)
    unmeasured_.model = {reach_.model.speed().unmeasured(), membership_.size,
                         NetworkSpeed::between(membership_)};
  forget_chosen();
}

void Choices::refuse_blocks(const Call& call) {
  refuse_call(fmt::format("{} by {} does not write to blocks that lie apart: give it one piece of memory",
                          to_string(call.op), call.algorithm->name()));
}

}  // namespace cohort
