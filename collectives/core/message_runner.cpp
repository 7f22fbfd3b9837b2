// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/message_runner.h>

#include <cohort/net/host/touch.h>

namespace cohort {

MessageRunner::MessageRunner(const Use& use, const PeerTransports::Choice& transports,
                             std::optional<PeerTransports::Within> within)
    : engine_(use.engine),
      membership_(use.membership),
      owner_(use.owner),
      choices_(use.choices),
      call_(use.call),
      health_(use.health),
      watchdog_(use.watchdog),
      run_ahead_(use.engine, use.membership, running_, use.health),
      resources_(use.engine, use.membership, use.owner, transports, within ? &*within : nullptr),
      exec_(use.engine, use.membership, use.owner, resources_) {
  resources_.bind(running_.windows);
}

void MessageRunner::meet_on_host(const SharedHeap& heap) {
  host::HostGroup* const group = resources_.group();
  if (group != nullptr && group->members().size() > 1)
    arrival_.emplace(engine_, membership_, *group, owner_, running_, exec_, heap, choices_.reach());
}

void MessageRunner::start(TaskScope& services, const Membership& job, std::optional<unsigned> copy_threads) {
  resources_.start(services);
  bool is_one_process = !resources_.is_isolated();
  for (Rank peer = 0; peer < membership_.size; ++peer)
    is_one_process = is_one_process && membership_.shares_process(peer);
  if (arrival_ && is_one_process) arrival_->set_one_process();
  exec_.set_cores(job.core_supply(), job.ranks_of_host());
  exec_.workers().allow(copy_threads ? *copy_threads : CopyWorkers::most_for(job.engines_per_core()));
}

void MessageRunner::begin(const Call& message, const Signature& signature) {
  prepare(message, signature);
  if (call_.whole()) {
    call_.begin_message();
    watchdog_.begin_message();
  }
  if (!health_.begin(running_.sequence, running_.signature)) throw Error(health_.cause());
}

/// Over links the schedule's own task, else one that meets or provides first.
Task<> MessageRunner::run(const Call& message) {
  if (!arrival_) exec_.begin(UserWindows::staged, 0);
  Task<> running = arrival_ ? attend_and_run(message) : run_schedule(message);
  if (!choices_.reach().is_host_wide && run_ahead_.is_too_long())
    return run_ahead_.shorten_before(std::move(running));
  return running;
}

Task<> MessageRunner::run_or_complete(const Call& message) {
  const bool is_done = may_complete_here(message) && complete_here(message);
  if (!is_done) co_await run(message);
  call_.end_message();
}

Task<> MessageRunner::run_unnumbered(const Call& message) {
  prepare(message, sign(message, membership_.size));
  co_await run_or_complete(message);
  end();
}

Task<> MessageRunner::forget_unnumbered() {
  co_await exec_.phase();  // all are through
  resources_.group()->forget_arrivals();
  arrival_->forget_last_call();
  co_await exec_.phase();  // all have forgotten
  running_.sequence = 0;
}

/// What is over when all have met needs no more.
Task<> MessageRunner::attend_and_run(const Call& message) {
  const bool is_over = co_await arrival_->attend(message);
  if (!is_over) co_await run_schedule(message);
}

Task<> MessageRunner::run_schedule(const Call& message) {
  if (message.algorithm->scope() == Scope::self) return complete_alone(message);
  const std::size_t piece = piece_bytes(*message.algorithm, message, choices_.reach_for(message));
  const ResourceTag tag{message.algorithm, size_class(piece)};
  if (!resources_.is_provided(tag)) return provide_and_run(message, tag);
  const bool touches =
      message.algorithm->scope() == Scope::node && arrival_->windows() == UserWindows::mapped;
  if (touches) return run_on_peers_memory(message, piece);
  return message.algorithm->run(exec_, message.arguments(membership_.size), piece);
}

Task<> MessageRunner::complete_alone(const Call& message) {
  exec_.begin(UserWindows::mapped, 0);
  const OperatorArguments arguments = message.arguments(membership_.size);
  co_await exec_.combine_in_turns(*message.algorithm, arguments);
}

Task<> MessageRunner::provide_and_run(const Call& message, ResourceTag tag) {
  const Needs needs = message.algorithm->needs(class_bytes(tag.size_class), choices_.reach().hosts);
  co_await resources_.provide(tag, needs);
  resources_.bind(running_.windows);
  co_await run_schedule(message);
}

/// A touch from the first step to the last, which looks for withdrawals before each phase (MemoryExec): a
/// peer's call may be over with the last one, before this rank finds everybody there.
Task<> MessageRunner::run_on_peers_memory(const Call& message, std::size_t piece) {
  host::Touch touch;
  if (!touch.begin(*resources_.group())) co_await engine_.sleep_until(kNever);  // until the cause comes
  co_await message.algorithm->run(exec_, message.arguments(membership_.size), piece);
}

Task<> MessageRunner::hear_of_last() {
  return run_ahead_.hear_of_last(arrival_ && arrival_->sees_all() ? &*arrival_ : nullptr);
}

Task<> MessageRunner::withdraw() {
  host::HostGroup* const group = resources_.group();
  if (group == nullptr) co_return;
  const auto is_gone = [this](Rank peer) { return health_.is_gone(peer); };
  CancelScope uncancelled;
  Task<> withdrawing = with_scope(uncancelled, group->withdraw(is_gone));
  co_await withdrawing;
}

}  // namespace cohort
