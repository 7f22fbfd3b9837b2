// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/exec.h>
#include <cohort/engine/tuning.h>

#include <algorithm>

/// How data goes through several ranks in chunks, each passing on one while it takes the next.
namespace cohort {

/// At least one, so that nothing, too, goes through all ranks.
[[nodiscard]] constexpr std::size_t chunks_of(std::size_t bytes) noexcept {
  return std::max<std::size_t>(1, (bytes + tuning::links::kChunk - 1) / tuning::links::kChunk);
}
[[nodiscard]] inline std::size_t chunks(const Slice& data) noexcept { return chunks_of(data.bytes); }

[[nodiscard]] inline Slice chunk(const Slice& data, std::size_t index) noexcept {
  const std::size_t at = index * tuning::links::kChunk;
  return data.part(at, std::min(tuning::links::kChunk, data.bytes - at));
}

/// Receives the chunks one after the other and tells the forwarding streams, if there are some, of each.
inline Task<> take_chunks(Link& previous, Slice data, LocalNotify* arrived, LocalNotify* also = nullptr) {
  for (std::size_t k = 0; k < chunks(data); ++k) {
    co_await previous.recv(chunk(data, k));
    if (arrived != nullptr) arrived->post();
    if (also != nullptr) also->post();
  }
}

inline Task<> pass_chunks(Link& next, Slice data, LocalNotify& arrived) {
  for (std::size_t k = 0; k < chunks(data); ++k) {
    co_await arrived.wait();
    co_await next.send(chunk(data, k));
  }
}

/// All of them are there.
inline void post_chunks(const Slice& data, LocalNotify& arrived) {
  for (std::size_t k = 0; k < chunks(data); ++k) arrived.post();
}

/// What ends a chain from `first` around to the rank before it: that one closes the ring with an Ack, and a
/// DataSignal around the chain lets all go. Nobody leaves before all have all chunks, so that a disagreement
/// reaches every rank.
inline Task<> close_chain(Exec& x, Rank first) {
  Link& next = x.link(x.ahead(1));
  Link& previous = x.link(x.behind(1));
  const bool is_last = x.ahead(1) == first;
  if (is_last) co_await next.post(Signal::Ack);
  const Signal is_closed = x.rank() == first ? Signal::Ack : Signal::DataSignal;
  co_await previous.wait(is_closed);
  if (!is_last) co_await next.post(Signal::DataSignal);
}

/// What a way of so many messages one after the other comes to, for the bytes that follow one another.
[[nodiscard]] inline double bytes_on_way(std::size_t bytes, double messages) noexcept {
  return static_cast<double>(bytes) +
         (messages - 1) * static_cast<double>(std::min(bytes, tuning::links::kChunk));
}

/// Of such a chain, with close_chain() at its end.
[[nodiscard]] inline Cost cost_of_closed_chain(std::size_t bytes, Rank ranks) noexcept {
  const double others = ranks - 1.0;
  return {.rounds = 2.0 * ranks - 1.0,
          .bytes_moved = bytes_on_way(bytes, others),
          .messages = static_cast<double>(chunks_of(bytes) + 1) * others + 1,
          .bytes_by_all = static_cast<double>(bytes) * others};
}

}  // namespace cohort
