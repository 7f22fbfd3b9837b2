// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/slot_crossover.h>

#include <cohort/collectives/call/communicator_core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace cohort {
namespace {

// Calls follow each other without a pause; the best batch counts, since others are disturbed by whatever else
// runs. 12 calls of 8 ranks on 2 cores take 0.2 ms.
constexpr int kBatches = 3;
constexpr int kCallsPerBatch = 4;

/// Measuring ends, with what is known by then, when some rank has spent as much on it.
constexpr Duration kMostTime = std::chrono::milliseconds(15);

double microseconds(Duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

/// Memory for the largest call that is measured.
class Buffers {
 public:
  explicit Buffers(Rank ranks) : send_(host::kSlotPayloadBytes), recv_(send_.size() * ranks), ranks_(ranks) {}

  /// A call of which each rank puts `bytes` into its slot; shares are whole elements.
  [[nodiscard]] Call call(Operator op, std::size_t bytes, AlgorithmId algorithm) {
    const std::size_t grain = sizeof(float) * (op == Operator::reduce_scatter ? ranks_ : 1);
    Call call;
    call.op = op;
    call.algorithm = algorithm;
    call.send = send_.data();
    call.send_bytes = bytes / grain * grain;
    call.recv = op == Operator::broadcast ? send_.data() : recv_.data();
    call.recv_bytes = call.send_bytes;
    if (op == Operator::all_gather) call.recv_bytes *= ranks_;
    if (op == Operator::reduce_scatter) call.recv_bytes /= ranks_;
    call.count = call.send_bytes / sizeof(float);
    return call;
  }

 private:
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
  Rank ranks_;
};

}  // namespace

void SlotCrossover::take(const std::vector<SlotTimes>& of_one_operator) {
  if (of_one_operator.empty()) return;
  const auto lost = std::find_if(of_one_operator.begin(), of_one_operator.end(),
                                 [](const SlotTimes& times) { return times.slots_us > times.direct_us; });
  std::size_t most = 0;
  if (lost == of_one_operator.begin())
    most = lost->bytes / 2;
  else
    most = std::prev(lost)->bytes;
  if (lost == of_one_operator.end()) most = std::max(most, kUnmeasuredBytes);
  most_bytes_[static_cast<std::size_t>(of_one_operator.front().op)] = most;
  measured_.insert(measured_.end(), of_one_operator.begin(), of_one_operator.end());
}

std::optional<SlotTimes> SlotCrossover::times_of(Operator op, std::size_t bytes) const noexcept {
  const SlotTimes* below = nullptr;
  for (const SlotTimes& at : measured_) {
    if (at.op != op) continue;
    if (at.bytes == bytes) return at;
    if (at.bytes < bytes) {
      below = &at;
      continue;
    }
    if (below == nullptr) return std::nullopt;
    const double part =
        static_cast<double>(bytes - below->bytes) / static_cast<double>(at.bytes - below->bytes);
    return SlotTimes{op, bytes, std::lerp(below->slots_us, at.slots_us, part),
                     std::lerp(below->direct_us, at.direct_us, part)};
  }
  return std::nullopt;
}

Task<double> CommunicatorCore::time_calls(const Call& call) {
  Duration best = Duration::max();
  for (int batch = 0; batch < kBatches; ++batch) {
    const TimePoint start = engine_.now();
    for (int i = 0; i < kCallsPerBatch; ++i) co_await run_unnumbered(call);
    best = std::min(best, engine_.now() - start);
  }
  co_return microseconds(best) / kCallsPerBatch;
}

/// Slots against `direct`, for every operator and size. After each size the ranks agree on the slowest
/// rank's times, and on whether to go on.
Task<> CommunicatorCore::measure_slots() {
  Buffers buffers(membership_.size);
  const TimePoint start = engine_.now();
  bool has_time = true;
  for (const Operator op :
       {Operator::all_reduce, Operator::all_gather, Operator::reduce_scatter, Operator::broadcast}) {
    std::vector<SlotTimes> measured;
    for (std::size_t i = 0; i < SlotCrossover::kSizes.size() && has_time; ++i) {
      const std::size_t bytes = SlotCrossover::kSizes[i];
      const Call in_slots = buffers.call(op, bytes, AlgorithmId::one_shot);
      const Call directly = buffers.call(op, bytes, AlgorithmId::direct);
      std::array<double, 3> times{};
      times[0] = co_await time_calls(in_slots);
      times[1] = co_await time_calls(directly);
      times[2] = microseconds(engine_.now() - start);
      co_await agree_on_slowest(times);
      measured.push_back({op, bytes, times[0], times[1]});
      has_time = times[2] < microseconds(kMostTime);
    }
    reach_.slots.take(measured);
  }
}

}  // namespace cohort
