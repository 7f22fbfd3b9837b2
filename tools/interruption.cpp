// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/interruption.h>

#include <atomic>

namespace cohort {
namespace {

std::atomic<bool> is_noted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

}  // namespace

Interruption::Interruption() noexcept {
  is_noted = false;
  struct sigaction noting {};
  noting.sa_handler = [](int) { is_noted = true; };
  noting.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &noting, &before_);
}

Interruption::~Interruption() { ::sigaction(SIGINT, &before_, nullptr); }

bool Interruption::is_wanted() noexcept { return is_noted; }

}  // namespace cohort
