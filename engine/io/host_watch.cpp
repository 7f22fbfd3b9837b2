// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/host_watch.h>

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

/// As many without an answer are no accident of a network that loses a packet now and then.
constexpr int kUnansweredProbes = 3;
/// Of keepalive, of which the kernel waits for some more.
constexpr std::uint32_t kDoubtfulProbes = 2;

}  // namespace

Duration silence(const TcpState& state) noexcept {
  const bool has_room = state.awaits_answer() && state.window_bytes != 0;
  const bool is_asked_in_vain = state.unacknowledged_segments == 0
                                    ? state.probes >= kUnansweredProbes
                                    : state.since_answer >= kUnansweredProbes * state.retransmission;
  return has_room || is_asked_in_vain ? state.since_answer : Duration::zero();
}

bool HostWatch::look(const TcpState& state, TimePoint now, Duration longest) noexcept {
  const bool waits = state.awaits_answer() && state.window_bytes != 0;
  const bool has_advanced =
      std::exchange(acknowledged_bytes_, state.acknowledged_bytes) != state.acknowledged_bytes;
  if (!waits)
    waiting_since_.reset();
  else if (!waiting_since_ || has_advanced)
    waiting_since_ = now;
  const Duration waited = waiting_since_ ? now - *waiting_since_ : Duration::zero();
  const Duration worst = std::max(silence(state), waited);
  const bool is_idle_in_vain = !state.awaits_answer() && state.probes >= kDoubtfulProbes;
  is_in_doubt_ = is_idle_in_vain || worst >= longest / 2;
  const bool is_over = worst >= longest;
  return std::exchange(was_over_, is_over) && is_over;
}

}  // namespace cohort
