// SPDX-License-Identifier: Apache-2.0
// What the ranks of a host measure together when their communicator is made, so that what follows is chosen
// by figures of this host, the same on every rank.
#include <cohort/collectives/call/communicator_core.h>

namespace cohort {

/// One call outside the numbered sequence of the user's: no watchdog, since the joining has its deadline.
Task<> CommunicatorCore::run_unnumbered(const Call& call) {
  begin(call);
  const bool is_done = (uses_slots(call) || refers(call)) && complete_here(call);
  if (!is_done) co_await run_schedule(call);
  running_.is_running = false;
}

/// values[i] = the largest of all ranks.
Task<> CommunicatorCore::agree_on_slowest(std::span<double> values) {
  Call call;
  call.op = Operator::all_reduce;
  call.type = DataType::float64;
  call.reduce = ReduceOp::max;
  call.count = values.size();
  call.send = call.recv = reinterpret_cast<std::byte*>(values.data());
  call.send_bytes = call.recv_bytes = values.size_bytes();
  co_await run_unnumbered(call);
}

/// Leaves no trace in the numbers of calls: the first one of the user is #1.
Task<> CommunicatorCore::calibrate() {
  CancelScope* around = co_await current_scope();
  CancelScope scope(around);
  operation_scope_ = &scope;
  if (health_.is_failed()) scope.cancel(health_.cause());
  std::exception_ptr failure;
  try {
    Task<> measuring_slots = with_scope(scope, measure_slots());
    co_await measuring_slots;
    Task<> measuring_pull = with_scope(scope, measure_pull());
    co_await measuring_pull;
    host::HostGroup& group = *resources_.group();
    Task<> all_are_through = with_scope(scope, exec_.phase());
    co_await all_are_through;
    group.forget_arrivals();
    Task<> all_have_forgotten = with_scope(scope, exec_.phase());
    co_await all_have_forgotten;
    running_.sequence = 0;
  } catch (...) {
    failure = std::current_exception();
  }
  operation_scope_ = nullptr;
  running_.is_running = false;
  if (!failure) co_return;
  resources_.group()->withdraw();
  std::rethrow_exception(failure);
}

}  // namespace cohort
