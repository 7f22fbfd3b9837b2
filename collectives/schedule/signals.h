// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>

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

/// Whether the one of two ranks that gets something small from the other posts an Ack first, which costs no
/// round: over TCP kernels acknowledge sooner by themselves what nobody answers (8 B, 5.9 in place of 7.6
/// us).
[[nodiscard]] constexpr bool acknowledges(std::size_t bytes, Rank ranks) noexcept {
  constexpr std::size_t kMostBytes = std::size_t{32} << 10;
  return ranks == 2 && bytes <= kMostBytes;
}
/// What one rank sends to each other one, or gets from it, with that Ack.
[[nodiscard]] constexpr double messages_of_star(std::size_t bytes, Rank ranks) noexcept {
  return acknowledges(bytes, ranks) ? 2 : ranks - 1.0;
}

[[nodiscard]] inline Cost cost_of_signals_around(Rank ranks) noexcept {
  const double rounds = std::bit_width(ranks - 1);
  return {.rounds = rounds, .messages = rounds * ranks};
}

}  // namespace cohort
