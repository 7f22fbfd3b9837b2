// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/fork_guard.h>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cohort::fork_guard {
namespace {

constexpr std::size_t kBits = 64;
/// More descriptors than a process may have by default (fs.nr_open).
constexpr std::size_t kMost = std::size_t{1} << 20;

// A bit for each descriptor, without a lock: another thread may hold that when a child is made.
std::array<std::atomic<std::uint64_t>, kMost / kBits> descriptors{};
std::atomic<std::size_t> words{0};  ///< that have had a bit

std::uint64_t bit_of(std::size_t descriptor) { return std::uint64_t{1} << (descriptor % kBits); }

/// In the child, where nothing but system calls is safe. The numbers stay taken: what the child inherited of
/// our objects may still close them.
void cut_off_child() {
  const std::size_t end = words.load(std::memory_order_relaxed);
  const int nowhere = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (std::size_t i = 0; i < end; ++i) {
    std::uint64_t left = descriptors[i].exchange(0, std::memory_order_relaxed);
    for (; left != 0; left &= left - 1) {
      const int descriptor = static_cast<int>(i * kBits) + std::countr_zero(left);
      if (nowhere < 0 || ::dup3(nowhere, descriptor, O_CLOEXEC) < 0) ::close(descriptor);
    }
  }
  if (nowhere >= 0) ::close(nowhere);
}

bool install() { return ::pthread_atfork(nullptr, nullptr, cut_off_child) == 0; }

}  // namespace

void add(int descriptor) noexcept {
  [[maybe_unused]] static const bool is_installed = install();
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
