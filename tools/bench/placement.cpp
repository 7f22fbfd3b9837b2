// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/placement.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/affinity.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace cohort::bench {
namespace {

constexpr std::uint64_t kBatches = 51;
constexpr std::uint64_t kRoundsPerBatch = 20;
constexpr std::uint64_t kRounds = kBatches * kRoundsPerBatch;

/// Binds the calling thread until its end.
class Bound : Immovable {
 public:
  explicit Bound(unsigned processor) {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0)
      throw system_error(errno, "asking for the usable processors");
    affinity::bind_thread(processor);
  }
  ~Bound() { (void)::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

}  // namespace

Distance distance_of(double round_trip_ns) noexcept {
  constexpr double kSiblingsNs = 100;
  constexpr double kNearNs = 250;
  if (round_trip_ns < kSiblingsNs) return Distance::siblings;
  return round_trip_ns < kNearNs ? Distance::near : Distance::far;
}

Placement::Placement(Board& board, Rank rank, std::optional<Rank> partner)
    : board_(board), rank_(rank), partner_(partner) {
  if (rank != 0 && rank != partner) return;
  const std::vector<unsigned> processors = affinity::usable_processors();
  board.slots[rank].processor = rank == 0 ? processors.front() : processors.back();
}

bool Placement::measure() {
  ++measurements_;
  if (rank_ != 0 && rank_ != partner_) return false;
  const bool has_two = partner_ && board_.slots[0].processor != board_.slots[*partner_].processor;
  double round_trip_ns = 0;
  if (has_two) {
    const Bound bound(board_.slots[rank_].processor);
    if (rank_ == 0)
      round_trip_ns = ping();
    else
      pong();
  }
  if (rank_ == 0) {
    board_.round_trip_ns = round_trip_ns;
    board_.calibrated.store(measurements_, std::memory_order_release);
  }
  return true;
}

bool Placement::is_done() const noexcept {
  return board_.calibrated.load(std::memory_order_acquire) >= measurements_;
}

double Placement::ping() const noexcept {
  std::array<double, kBatches> batches{};
  std::uint64_t round = (measurements_ - 1) * kRounds;
  for (double& batch : batches) {
    const std::int64_t start = now_ns();
    for (std::uint64_t i = 0; i < kRoundsPerBatch; ++i) {
      board_.ping.store(++round, std::memory_order_release);
      while (board_.pong.load(std::memory_order_acquire) != round) continue;
    }
    batch = static_cast<double>(now_ns() - start) / kRoundsPerBatch;
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

void Placement::pong() const noexcept {
  const std::uint64_t last = measurements_ * kRounds;
  for (std::uint64_t round = last - kRounds; round < last;) {
    while (board_.ping.load(std::memory_order_acquire) != round + 1) continue;
    board_.pong.store(++round, std::memory_order_release);
  }
}

}  // namespace cohort::bench
