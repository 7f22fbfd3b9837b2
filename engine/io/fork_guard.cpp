// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/fork_guard.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace cohort::fork_guard {
namespace {

constexpr std::size_t kBits = 64;
/// More descriptors than a process may have by default (fs.nr_open).
constexpr std::size_t kMost = std::size_t{1} << 20;

// A bit for each descriptor, without a lock: another thread may hold that when a child is made.
std::array<std::atomic<std::uint64_t>, kMost / kBits> descriptors{};
std::atomic<std::size_t> words{0};  ///< that have had a bit

std::mutex no_child;  ///< held while descriptors and bits disagree, and while a child is made
/// Yields until a thread that holds it for microseconds must have let it go; else this thread itself holds
/// it.
constexpr int kMostYields = 10'000;
constinit thread_local bool is_held_for_child = false;

std::uint64_t bit_of(std::size_t descriptor) { return std::uint64_t{1} << (descriptor % kBits); }

int open_nowhere() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

/// In the child, where nothing but system calls is safe. The numbers stay taken: what the child inherited of
/// our objects may still close them. Where the table is full, the first of them makes room for what leads
/// nowhere, and keeps it.
void cut_off_child() {
  const std::size_t end = words.load(std::memory_order_relaxed);
  int nowhere = open_nowhere();
  bool is_kept = false;
  for (std::size_t i = 0; i < end; ++i) {
    std::uint64_t left = descriptors[i].exchange(0, std::memory_order_relaxed);
    for (; left != 0; left &= left - 1) {
      const int descriptor = static_cast<int>(i * kBits) + std::countr_zero(left);
      if (nowhere >= 0 && ::dup3(nowhere, descriptor, O_CLOEXEC) >= 0) continue;
      ::close(descriptor);
      if (nowhere < 0) nowhere = open_nowhere();
      is_kept |= nowhere == descriptor;
    }
  }
  if (nowhere >= 0 && !is_kept) ::close(nowhere);
}

void before_child() {
  is_held_for_child = no_child.try_lock();
  for (int i = 0; i < kMostYields && !is_held_for_child; ++i) {
    ::sched_yield();
    is_held_for_child = no_child.try_lock();
  }
}

void after_child() {
  if (std::exchange(is_held_for_child, false)) no_child.unlock();
}

void in_child() {
  cut_off_child();
  if (is_held_for_child)
    after_child();
  else
    new (&no_child) std::mutex;  // whoever holds it is not here to let it go
}

void install() {
  [[maybe_unused]] static const bool is_installed =
      ::pthread_atfork(before_child, after_child, in_child) == 0;
}

}  // namespace

NoChild::NoChild() noexcept {
  install();
  no_child.lock();
}

NoChild::~NoChild() { no_child.unlock(); }

void add(int descriptor) noexcept {
  install();
  const auto place = static_cast<std::size_t>(descriptor);
  if (descriptor < 0 || place >= kMost) return;
  descriptors[place / kBits].fetch_or(bit_of(place), std::memory_order_relaxed);
  std::size_t known = words.load(std::memory_order_relaxed);
  while (known <= place / kBits && !words.compare_exchange_weak(known, place / kBits + 1)) {
  }
}

void remove(int descriptor) noexcept {
  const auto place = static_cast<std::size_t>(descriptor);
  if (descriptor < 0 || place >= kMost) return;
  descriptors[place / kBits].fetch_and(~bit_of(place), std::memory_order_relaxed);
}

}  // namespace cohort::fork_guard
