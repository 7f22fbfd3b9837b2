// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/job.h>

#include <cohort/collectives/job/resolved_options.h>
#include <cohort/engine/log.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cohort {

Job::Job(Engine& engine, Membership& membership, Health& health, TaskScope& services,
         const CommunicatorOptions& options)
    : engine_(engine),
      membership_(membership),
      health_(health),
      services_(services),
      options_(options),
      plane_(engine, membership, health),
      heap_(std::make_shared<SharedHeap>()) {}

void Job::serve(Resources& resources) {
  transports_ = &resources.transports();
  const Resources::HeapPlace heap = resources.heap();
  *heap_ = SharedHeap(heap.memory, heap.offset, heap.bytes, options_.uses_huge_pages, transports_);
  groups_.emplace(engine_, plane_, membership_, resources.group() == nullptr ? nullptr : heap_.get(),
                  group_buffer_bytes_of(options_));
  plane_.set_group_handler(*groups_);
  transports_->connections().set_is_making(
      [this](Rank peer, GroupNumber of) { return groups_->is_making(peer, of); });
  if (membership_.is_sparse())
    transports_->connections().set_take_control(
        [this](Rank peer, Socket socket) { plane_.take_call(peer, std::move(socket)); });
}

Task<> Job::root_has_left() {
  has_root_left_ = true;
  return end_if_unused();
}

Task<> Job::group_has_left(GroupTable::Group& group) {
  groups_->leave(group);
  return end_if_unused();
}

Task<> Job::end_if_unused() {
  if (!has_root_left_ || is_over_ || groups_->is_in_use()) co_return;
  is_over_ = true;
  co_await let_goodbyes_leave();
  services_.cancel();
  plane_.shutdown();
  try {
    co_await services_.join();
  } catch (...) {  // told when it happened, by the root
  }
}

/// To a peer that computes, and has not read so many words for as long: it would take this rank for dead. One
/// that is not connected yet, and takes no connection, hears it from others, or finds this rank gone.
Task<> Job::let_goodbyes_leave() {
  using Receivers = ControlPlane::Receivers;
  const Duration whole = timeout_of(options_);
  const std::array steps = {std::pair(std::min(kPatience, whole), Receivers::all),
                            std::pair(whole, Receivers::linked)};
  for (const auto& [patience, receivers] : steps) {
    const bool is_last = health_.is_failed() || receivers == Receivers::linked;
    try {
      co_await with_deadline(patience, plane_.until_sent(receivers));
      co_return;
    } catch (const Error& error) {
      if (is_last)
        log(LogLevel::warn, "'{}' is closed before all ranks have taken its goodbye: {}", membership_.name,
            error.what());
    }
    if (is_last) co_return;
  }
}

}  // namespace cohort
