// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/engine/tuning.h>

namespace cohort {

/// Every rank hears from all: in round k it tells the rank 2^k ahead and hears from the one 2^k behind.
/// Hensgen, Finkel, Manber 1988.
inline Task<> signal_around(Exec& x) {
  for (Rank distance = 1; distance < x.size(); distance *= 2) {
    co_await x.link(x.ahead(distance)).post(Signal::Ack);
    co_await x.link(x.behind(distance)).wait(Signal::Ack);
  }
}

/// Of a root: all ranks of `x` wait for its Ack.
inline Task<> tell_all(Exec& x) {
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
}

/// Of a root: all ranks of `x` post an Ack to it.
inline Task<> hear_from_all(Exec& x) {
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
}

/// Whether all ranks hear of each other in a one-shot or tree schedule in which some only give. Two ranks do:
/// it costs no round, and over TCP kernels acknowledge sooner by themselves what nobody answers. So do those
/// of a large message: what goes in pieces stays in caches only while nobody is far ahead.
[[nodiscard]] constexpr bool is_joint(std::size_t bytes, Rank ranks) noexcept {
  return ranks == 2 || bytes > tuning::links::kMostAhead;
}
/// Between a root and each other rank, of such a schedule.
[[nodiscard]] constexpr double messages_with_root(std::size_t bytes, Rank ranks) noexcept {
  return (is_joint(bytes, ranks) ? 2 : 1) * (ranks - 1.0);
}
/// Of a star; of two ranks both ways are gone at once.
[[nodiscard]] constexpr double rounds_of_star(std::size_t bytes, Rank ranks) noexcept {
  return ranks > 2 && is_joint(bytes, ranks) ? 2 : 1;
}

[[nodiscard]] inline Cost cost_of_signals_around(Rank ranks) noexcept {
  const double rounds = std::bit_width(ranks - 1);
  return {.rounds = rounds, .messages = rounds * ranks};
}

}  // namespace cohort
