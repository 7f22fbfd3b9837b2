// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/session/fork_detector.h>

#include <pthread.h>

#include <atomic>

namespace cohort::bindings {
namespace {

std::atomic<unsigned> process_generation{0};

void count_children() noexcept {
  [[maybe_unused]] static const bool is_counting =
      ::pthread_atfork(nullptr, nullptr, [] { process_generation.fetch_add(1); }) == 0;
}

}  // namespace

ForkDetector::ForkDetector() noexcept : generation_((count_children(), process_generation.load())) {}

bool ForkDetector::is_child() const noexcept {
  return process_generation.load(std::memory_order_relaxed) != generation_;
}

}  // namespace cohort::bindings
