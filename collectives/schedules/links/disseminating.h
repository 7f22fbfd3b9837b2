// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/dissemination.h>
#include <cohort/collectives/schedules/links/exchange.h>

namespace cohort {

Task<> send_both(Link& link, Slice first, Slice second);
Task<> receive_both(Link& link, Slice first, Slice second);
Task<> receive_reduce_both(Link& link, Slice first, Slice second, Reducer reducer);

/// One rank's part in a Dissemination of slices that are all of one size. They lie in scratch, ranks *
/// slice_bytes, the first place at its end, so that with the nearest first those that follow one another
/// among the ranks also do there.
///
/// Lifetime: within one schedule. With two runs, none of them empty, a message is two.
class Disseminating : Immovable {
 public:
  /// Which way slices go, on their way to all: towards the next rank, or, mirrored, towards the one before.
  enum class Towards : std::uint8_t { next, previous };

  Disseminating(Exec& x, Dissemination::Order order, std::size_t slice_bytes, Towards towards = Towards::next)
      : x_(x), rule_(order, x.size()), slice_bytes_(slice_bytes), towards_(towards) {}

  /// This rank's own slice.
  [[nodiscard]] Slice own() const noexcept { return places({0, 1}); }

  /// Every rank's own slice to every rank.
  Task<> all_gather();

  /// The same backwards: every rank's part of each slice to its owner, combined on the way. A rank combines
  /// what it has with what comes, in the order of the rounds.
  Task<> reduce_scatter(Reducer reducer);

  /// Every rank's own slice to the root.
  Task<> gather(Rank root);

  /// The same backwards: from the root to every rank its own slice.
  Task<> scatter(Rank root);

  /// Copies part(r), the whole slice of each rank r, to its place; those that lie side by side together.
  template <class Part>
  Task<> pack(Part& part) {
    return x_.has_memory() ? pack_each(part) : copy_at_once(x_.size() * slice_bytes_);
  }
  /// And back, from a place on: the end of each slice, as much as part(r) has.
  template <class Part>
  Task<> unpack(Part& part, Rank from = 0) {
    return x_.has_memory() ? unpack_each(part, from) : copy_at_once(bytes_of(part, from));
  }

 private:
  /// A place, and the way of its slice.
  struct Position {
    Rank place = 0;
    Rank way = 0;
  };
  struct Stretch {
    Slice outside;
    Slice inside;
    Position next;  ///< behind it
  };

  [[nodiscard]] Slice places(Dissemination::Run run) const noexcept {
    return x_.scratch((x_.size() - run.begin - run.count) * slice_bytes_, run.count * slice_bytes_);
  }
  [[nodiscard]] Position after(Position at) const noexcept { return {at.place + 1, rule_.way_after(at.way)}; }
  /// `way` is below the number of ranks: asked for each slice, and so without a division.
  [[nodiscard]] Rank rank_behind(Rank way) const noexcept {
    const Rank ahead = towards_ == Towards::next ? x_.size() - way : way;
    const Rank left = x_.size() - x_.rank();
    return ahead < left ? x_.rank() + ahead : ahead - left;
  }
  [[nodiscard]] Rank way_to(Rank root) const noexcept {
    const Rank ahead = (root + x_.size() - x_.rank()) % x_.size();
    return towards_ == Towards::next ? ahead : (x_.size() - ahead) % x_.size();
  }
  /// The peer to which slices go on in a round, and the one from which they come.
  [[nodiscard]] Link& further(const Dissemination::Round& round) const {
    return x_.link(rank_behind(x_.size() - round.distance));
  }
  [[nodiscard]] Link& nearer(const Dissemination::Round& round) const {
    return x_.link(rank_behind(round.distance));
  }

  template <class Part>
  Task<> pack_each(Part& part) {
    for (Position at; at.place < x_.size();) {
      const Stretch stretch = stretch_from(at, part);
      if (!stretch.outside.empty()) co_await x_.copy(stretch.inside, stretch.outside);
      at = stretch.next;
    }
  }
  template <class Part>
  Task<> unpack_each(Part& part, Rank from) {
    for (Position at{from, rule_.way_of(from)}; at.place < x_.size();) {
      const Stretch stretch = stretch_from(at, part);
      if (!stretch.outside.empty()) co_await x_.copy(stretch.outside, stretch.inside);
      at = stretch.next;
    }
  }
  /// What they come to, without memory.
  Task<> copy_at_once(std::size_t bytes);

  /// Of those in places from this one on. Every rank is asked, in rank order: that of places takes longer.
  template <class Part>
  [[nodiscard]] std::size_t bytes_of(Part& part, Rank from) const {
    std::size_t bytes = 0;
    for (Rank rank = 0; rank < x_.size(); ++rank) bytes += part(rank).bytes;
    for (Rank place = 0; place < from; ++place) bytes -= part(rank_behind(rule_.way_of(place))).bytes;
    return bytes;
  }

  template <class Part>
  [[nodiscard]] Stretch stretch_from(Position at, Part& part) const {
    const Slice outside = part(rank_behind(at.way));
    const Slice inside = places({at.place, 1}).part(slice_bytes_ - outside.bytes, outside.bytes);
    Stretch stretch{outside, inside, after(at)};
    if (outside.bytes != slice_bytes_) return stretch;
    for (; stretch.next.place < x_.size(); stretch.next = after(stretch.next)) {
      const Slice before = part(rank_behind(stretch.next.way));
      const bool is_adjacent = before.offset + before.bytes == stretch.outside.offset;
      if (!is_adjacent || before.bytes != slice_bytes_) break;
      stretch.outside = {before.window, before.offset, before.bytes + stretch.outside.bytes};
      stretch.inside = {stretch.inside.window, stretch.inside.offset - slice_bytes_, stretch.outside.bytes};
    }
    return stretch;
  }

  Exec& x_;
  const Dissemination rule_;
  const std::size_t slice_bytes_;
  const Towards towards_;
};

}  // namespace cohort
