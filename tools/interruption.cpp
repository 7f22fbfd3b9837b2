// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/interruption.h>

#include <atomic>

namespace cohort {
namespace {

std::atomic<bool> is_noted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

}  // namespace

/// Shells that do no job control start what is to run in the background without it.
Interruption::Interruption() noexcept {
  is_noted = false;
  ::sigaction(SIGINT, nullptr, &before_);
  if (before_.sa_handler == SIG_IGN) return;
  struct sigaction noting {};
  noting.sa_handler = [](int) { is_noted = true; };
  noting.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &noting, nullptr);
}

Interruption::~Interruption() { ::sigaction(SIGINT, &before_, nullptr); }

bool Interruption::is_wanted() noexcept { return is_noted; }

}  // namespace cohort
