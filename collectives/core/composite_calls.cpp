// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/composite_calls.h>

#include <cohort/engine/tuning.h>

namespace cohort {
namespace {

/// What a call of several tensors is called, before its sizes are looked at.
Signature name_of(const TensorCall& call, Rank ranks) {
  const TensorArguments& given = call.arguments;
  Call whole(call.op);
  whole.type = given.out.type;
  whole.reduce = given.reduce.op;
  whole.root = given.root;
  whole.ask_for(call.determinism);
  return sign_tensors(whole, ranks, ListDigest::of_size(std::max(given.in.size, given.out.size)));
}

}  // namespace

CompositeCalls::CompositeCalls(Engine& engine, const Membership& membership, const Choices& choices,
                               const std::shared_ptr<SharedHeap>& heap, RunningCall& call,
                               MessageRunner& messages)
    : engine_(engine),
      membership_(membership),
      choices_(choices),
      call_(call),
      messages_(messages),
      packed_(engine, heap, membership.rank, membership.size),
      function_reducer_(engine, heap, membership.rank, membership.size,
                        [this](Call& message) { return move_for_function(message); }) {}

Task<> CompositeCalls::run(const Call& call) {
  call_.begin(sign(call, membership_.size));
  return call.reduce == ReduceOp::scaled_sum ? scale_and_run(call) : tell_counts_and_run(call);
}

Task<> CompositeCalls::run(const TensorCall& call) {
  call_.begin(name_of(call, membership_.size));
  return run_tensors(call);
}

Task<> CompositeCalls::run(const FunctionCall& call) {
  const Call whole = FunctionReducer::whole_of(call, membership_.rank, membership_.size);
  call_.begin(sign_function(whole, membership_.size, *call.function));
  return run_function(call);
}

void CompositeCalls::begin(const Call& message) { messages_.begin(message, sign(message, membership_.size)); }

Task<> CompositeCalls::scale_and_run(const Call& call) {
  const Call scaled = co_await scaled_.scale(engine_, call, membership_.rank);
  call_.become_one_message();
  begin(scaled);
  co_await messages_.run(scaled);
}

/// Telling has the signature of the call, moving the data that of the call that it has become.
Task<> CompositeCalls::tell_counts_and_run(const Call& call) {
  Call& telling = counts_.tell(call, membership_.rank, membership_.size);
  telling.algorithm = &choices_.select(telling, {});
  messages_.begin(telling, *call_.whole());
  co_await messages_.run(telling);
  call_.end_message();
  Call& whole = counts_.complete(call, membership_.rank, membership_.size);
  whole.algorithm = &choices_.select(whole, Choices::name_forced_by(call));
  begin(whole);
  co_await messages_.run(whole);
}

Task<> CompositeCalls::run_tensors(const TensorCall& call) {
  tensors_.begin(call, membership_.rank, membership_.size);
  while (const std::optional<TensorPlan::Message> message = tensors_.next())
    co_await run_message(call, *message);
}

/// The first one is signed for all tensors; the others for themselves.
Task<> CompositeCalls::run_message(const TensorCall& call, const TensorPlan::Message& message) {
  Call whole = message.is_packed
                   ? packed_.place(call, tensors_, message)
                   : TensorPlan::call_of(call, message.first, membership_.rank, membership_.size);
  whole.ask_for(call.determinism);
  whole.algorithm = &choices_.select(whole, call.algorithm);
  // As for calls of their own: those that complete in place would not suspend.
  const bool may_go_on = engine_.pace().may_do(tuning::waiting::kCall + 2 * whole.message_bytes());
  if (!may_go_on) co_await engine_.let_others_run();
  call_.set_tensors({.first = message.first, .end = message.end, .is_packed = message.is_packed});
  if (call_.is_before_messages())
    messages_.begin(whole, sign_tensors(whole, membership_.size, ListDigest(tensors_.counts())));
  else
    begin(whole);
  if (message.is_packed) {
    co_await packed_.pack(whole);
  } else if (whole.reduce == ReduceOp::scaled_sum) {
    const Call scaled = co_await scaled_.scale(engine_, whole, membership_.rank);
    whole = scaled;
    messages_.bind_input(whole);
  }
  co_await messages_.run_or_complete(whole);
  messages_.finish(whole);
  if (message.is_packed) co_await packed_.unpack(whole);
}

Task<> CompositeCalls::run_function(const FunctionCall& call) {
  const Call whole = FunctionReducer::whole_of(call, membership_.rank, membership_.size);
  co_await function_reducer_.run(whole, *call.function);
}

/// The first message is signed for the whole call.
Task<> CompositeCalls::move_for_function(Call& call) {
  call.algorithm = &choices_.select(call, {});
  if (call_.is_before_messages())
    messages_.begin(call, with_algorithm(*call_.whole(), call.algorithm->id()));
  else
    begin(call);
  co_await messages_.run_or_complete(call);
}

}  // namespace cohort
