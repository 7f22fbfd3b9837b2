// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/stream_observer.h>

#include <utility>

namespace cohort::detail {
namespace {

thread_local constinit StreamObserver* observer_of_thread = nullptr;

}  // namespace

StreamObserver::Watch::Watch(StreamObserver& observer) noexcept
    : previous_(std::exchange(observer_of_thread, &observer)) {
  watches.fetch_add(1, std::memory_order_relaxed);
}

StreamObserver::Watch::~Watch() {
  observer_of_thread = previous_;
  watches.fetch_sub(1, std::memory_order_relaxed);
}

StreamObserver* stream_observer_of_this_thread() noexcept { return observer_of_thread; }

}  // namespace cohort::detail
