// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/collectives/schedules/operators/block_list.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// A vector for each host, cut into as many parts as anybody asks for, all of one size but for an element.
/// One vector of all is cut among the hosts by their bandwidths.
///
/// Of blocks that differ a part is as many, whole or a fraction of one, whatever their sizes: so each of a
/// host's ranks has its own block there.
///
/// A cut is a fraction of the vector, or of its blocks, rounded down: two parts of which neither begins where
/// the other has ended, as fractions, are the only ones that may have elements in common.
class HostVectors {
 public:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;

    [[nodiscard]] std::size_t bytes() const noexcept { return end - begin; }
    /// What both have; empty at its own beginning if that is nothing.
    [[nodiscard]] Range common_with(const Range& other) const noexcept {
      const Range both{std::max(begin, other.begin), std::min(end, other.end)};
      return both.begin < both.end ? both : Range{begin, begin};
    }
  };

  /// That of a host has a block for each of its ranks, in the order of places.
  [[nodiscard]] static HostVectors of_blocks(const Hosts& hosts, std::size_t block_bytes,
                                             std::size_t element_bytes) noexcept {
    return {hosts, block_bytes / element_bytes, element_bytes, true};
  }
  /// The same of blocks that differ.
  [[nodiscard]] static HostVectors of_blocks(const Hosts& hosts, const BlockList& blocks,
                                             std::size_t element_bytes) noexcept {
    HostVectors vectors(hosts, 0, element_bytes, true);
    vectors.blocks_ = blocks;
    return vectors;
  }
  /// One vector, of which each host has a part.
  [[nodiscard]] static HostVectors of_vector(const Hosts& hosts, std::size_t bytes,
                                             std::size_t element_bytes) noexcept {
    return {hosts, bytes / element_bytes, element_bytes, false};
  }

  [[nodiscard]] const Hosts& hosts() const noexcept { return hosts_; }
  /// Of a vector of all, which part that of the host is.
  [[nodiscard]] Range of_host(Rank host) const noexcept {
    return {elements_before(host) * element_bytes_, elements_before(host + 1) * element_bytes_};
  }
  [[nodiscard]] Range part(Rank host, Rank index, Rank parts) const noexcept {
    if (blocks_) return {bytes_before(host, index, parts), bytes_before(host, index + 1, parts)};
    const std::size_t elements =
        has_blocks_ ? hosts_.size_of(host) * elements_ : elements_before(host + 1) - elements_before(host);
    return {elements * index / parts * element_bytes_, elements * (index + 1) / parts * element_bytes_};
  }

 private:
  HostVectors(const Hosts& hosts, std::size_t elements, std::size_t element_bytes, bool has_blocks) noexcept
      : hosts_(hosts), elements_(elements), element_bytes_(element_bytes), has_blocks_(has_blocks) {}

  [[nodiscard]] std::size_t elements_before(Rank host) const noexcept {
    return hosts_.elements_before(host, elements_);
  }
  /// That many parts of the host's blocks: the whole ones, and of the next one as much.
  [[nodiscard]] std::size_t bytes_before(Rank host, Rank index, Rank parts) const noexcept;

  const Hosts& hosts_;
  std::size_t elements_;  ///< of a block, or of all
  std::size_t element_bytes_;
  bool has_blocks_;
  std::optional<BlockList> blocks_;  ///< where they differ
};

/// Hosts of any sizes that share their work. The ranks of a host cut the vector of every host into a part for
/// each of them, their own vector too, and what a rank has of its own host is its *slice*: that it has in the
/// end of a combination, and gives in the beginning of a gathering.
///
/// A rank *carries* its parts of all vectors: between hosts, each part passes between its carrier and those
/// whose slices it overlaps.
///
/// What all ranks of a host carry lies in the first scratch, by place and, for each place, by host. Behind it
/// is that of levels. Lifetime: within one schedule; uses x.inside().
class Carrying : Immovable {
 public:
  Carrying(Exec& x, const HostVectors& vectors);
  ~Carrying();

  /// All that the rank in that place of this host carries.
  [[nodiscard]] Slice operator()(Rank place) const;
  /// This rank's slice.
  [[nodiscard]] Slice own() const { return of_host(host_); }

  /// Copies all vectors in: user(host, at) is what the caller has of that host's vector from there on, as far
  /// as it lies side by side.
  template <class User>
  Task<> pack(User& user) {
    return copy_all(user, Way::in);
  }
  /// And out.
  template <class User>
  Task<> unpack(User& user) {
    return copy_all(user, Way::out);
  }

  /// Every rank's slice, of all that ranks have packed, to `result`, which may be own(): inside, in rank
  /// order, then by host.
  Task<> combine(Slice result, Combine combine);
  /// Every rank's own() to all.
  Task<> spread();

  /// From who carries them on that host to every rank its slice.
  Task<> scatter_from(Rank host);
  /// Every rank's own() to who carries it on that host.
  Task<> gather_to(Rank host);

 private:
  enum class Way : std::uint8_t { in, out };
  /// A rank of another host, whose slice overlaps what this one carries, and what that is; then the same
  /// holds the other way round.
  using Partner = PlacedSlice;

  void find_partners();
  [[nodiscard]] std::span<const Partner> partners_on(Rank host) const;
  [[nodiscard]] Link& link_to(const Partner& partner) { return x_.link(partner.rank); }
  [[nodiscard]] HostVectors::Range carried(Rank place, Rank host) const noexcept {
    return vectors_.part(host, place, size_);
  }
  /// What this rank carries of a host's vector.
  [[nodiscard]] const Slice& of_host(Rank host) const { return by_host_[host].slice; }
  /// Where in its own slice is what that one carries of it.
  [[nodiscard]] HostVectors::Range own_range_of(const Partner& partner) const;
  [[nodiscard]] Slice own_for(const Partner& partner) const;
  /// Where what that one has of it is received, to be combined.
  [[nodiscard]] Slice received_from(const Partner& partner) const;
  Task<> combine_across(Slice result, Combine combine);

  template <class User>
  Task<> copy_all(User& user, Way way) {
    std::size_t to = 0;
    for (Rank place = 0; place < size_; ++place)
      for (Rank host = 0; host < vectors_.hosts().count(); ++host) {
        const HostVectors::Range part = carried(place, host);
        for (std::size_t at = part.begin; at < part.end;) {
          const Slice rest = user(host, at);
          const std::size_t bytes = std::min(rest.bytes, part.end - at);
          const Slice outside = rest.part(0, bytes);
          const Slice inside = x_.scratch(to, bytes);
          const bool is_in = way == Way::in;
          const Slice& from = is_in ? outside : inside;
          const Slice& target = is_in ? inside : outside;
          co_await x_.copy(target, from);
          at += bytes;
          to += bytes;
        }
      }
  }

  Exec& x_;
  const HostVectors vectors_;
  const Rank host_;
  const Rank place_;
  const Rank size_;        ///< of this host
  std::size_t bytes_ = 0;  ///< of all that the ranks of this host carry
  // Leased from the Exec:
  std::vector<PlacedSlice> by_host_;  ///< what this rank carries of each host
  std::vector<Partner> partners_;
};

}  // namespace cohort
