// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/exec.h>

#include <vector>

namespace cohort {

/// A block for each place and each host, as large as it is, in scratch: those of a place side by side, or
/// those of a host, so that what goes to a rank of this host, or of another one, is one message. On hosts of
/// as many ranks each. The list is leased from the Exec.
///
/// Lifetime: within one schedule.
class PackedBlocks : Immovable {
 public:
  enum class Order : std::uint8_t { by_place, by_host };

  /// Of blocks of bytes(place, host), from `at` of scratch on.
  template <class Bytes>
  PackedBlocks(Exec& x, Order order, std::size_t at, const Bytes& bytes)
      : x_(x), order_(order), begin_(at), end_(at), blocks_(x.lease_places()) {
    const Rank places = x.hosts().most_ranks();
    const Rank hosts = x.hosts().count();
    inner_ = order == Order::by_place ? hosts : places;
    for (Rank outer = 0; outer * inner_ < places * hosts; ++outer)
      for (Rank inner = 0; inner < inner_; ++inner) {
        const bool is_by_place = order == Order::by_place;
        const std::size_t size = is_by_place ? bytes(outer, inner) : bytes(inner, outer);
        blocks_.push_back({x.here(), x.scratch(end_, size)});
        end_ += size;
      }
  }
  /// By place, as large as block(rank) of the rank that is there.
  template <class Block>
  PackedBlocks(Exec& x, const Block& block)
      : PackedBlocks(x, Order::by_place, 0,
                     [&](Rank place, Rank host) { return block(x.hosts().ranks_of(host)[place]).bytes; }) {}
  ~PackedBlocks() { x_.give_back(std::move(blocks_)); }

  [[nodiscard]] const Slice& at(Rank place, Rank host) const noexcept {
    const bool is_by_place = order_ == Order::by_place;
    return blocks_[is_by_place ? place * inner_ + host : host * inner_ + place].slice;
  }
  [[nodiscard]] const Slice& block(Rank of) const noexcept {
    return at(x_.hosts().place_of(of), x_.hosts().host_of(of));
  }
  /// All of that place, or of that host, by the order.
  [[nodiscard]] Slice operator()(Rank outer) const noexcept {
    const Slice& first = blocks_[outer * inner_].slice;
    const Slice& last = blocks_[outer * inner_ + inner_ - 1].slice;
    return {first.window, first.offset, last.offset + last.bytes - first.offset};
  }
  /// Of this rank's place, that of a host.
  [[nodiscard]] const Slice& in_own_place(Rank host) const noexcept {
    return at(x_.hosts().place_of(x_.rank()), host);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return end_ - begin_; }

 private:
  Exec& x_;
  const Order order_;
  const std::size_t begin_;
  std::size_t end_;
  Rank inner_ = 1;  ///< how many lie side by side
  std::vector<PlacedSlice> blocks_;
};

}  // namespace cohort
