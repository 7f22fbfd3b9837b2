// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/by_carrying.h>

#include <numeric>

namespace cohort::carrying {
namespace {

/// How many hosts have so many ranks, from 1 to most_ranks().
double hosts_of_size(const Hosts& hosts, Rank size) {
  const std::size_t larger = size < hosts.most_ranks() ? hosts.ranks_at(size).size() : 0;
  return static_cast<double>(hosts.ranks_at(size - 1).size() - larger);
}

/// What costs depend on. Made for every call that is chosen for: without an allocation.
struct Sizes {
  explicit Sizes(const Hosts& of) : ranks(of.ranks()), hosts(of.count()), most(of.most_ranks()) {
    for (Rank size = of.most_ranks(); size > 0; --size) {
      const double count = hosts_of_size(of, size);
      if (count == 0) continue;
      least = size;
      messages_inside += count * size * (size - 1.0);
      for (Rank other = 1; other <= of.most_ranks(); ++other) {
        const double pairs = count * (size == other ? count - 1 : hosts_of_size(of, other));
        messages_across += pairs * (size + other - std::gcd(size, other));
      }
      const double apart = size == of.most_ranks() ? count - 1 : count;
      messages_of_most += apart * (size + most - std::gcd(size, of.most_ranks()));
    }
  }

  double ranks;
  double hosts;
  double most;  ///< of a host
  double least = 0;
  double messages_inside = 0;   ///< from each rank to all others of its host
  double messages_across = 0;   ///< from each rank to all its partners
  double messages_of_most = 0;  ///< from those of a largest host only
};

/// What moves of one vector that hosts share by their bandwidths, in vectors: by the rank that sends or gets
/// most, or in messages that follow one another. The longest of these are those of first places.
class OfVector {
 public:
  enum class Counts : std::uint8_t { all, only_across };

  OfVector(const Hosts& hosts, Counts counts) noexcept
      : hosts_(hosts), counts_inside_(counts == Counts::all ? 1 : 0) {}

  [[nodiscard]] double of_all_reduce() const {
    const double busiest = most_of_hosts([&](Rank host) { return both_halves(host); });
    return std::max(busiest, longest_of([&](Rank host) { return combined(host) + gathered(host); }));
  }
  [[nodiscard]] double of_broadcast() const {
    const Rank root = host_of_root();
    const double scattered = longest_beside(root, [&](Rank host) { return slice(host, root); });
    return std::max(of_rooted(), longest_of([&](Rank host) {
                      const double there = host == root ? scattered : slice(host, root);
                      return longest_inside(root) + there + gathered(host);
                    }));
  }
  [[nodiscard]] double of_reduce() const {
    const Rank root = host_of_root();
    return std::max(of_rooted(), longest_of([&](Rank host) {
                      const double to_root = host == root ? 0 : slice(host, root);
                      return combined(host) + to_root + longest_inside(root);
                    }));
  }
  /// Of the root's host to others, or from them.
  [[nodiscard]] double beside_root() const { return 1 - share(host_of_root()); }
  /// Gets, while all combine; or sends, while all gather.
  [[nodiscard]] double of_owner() const {
    return most_of_hosts([&](Rank host) { return half(host) + others() * part(host); });
  }

 private:
  /// With more hosts no path is longer than what the busiest rank sends or gets.
  static constexpr Rank kHostsOfLongestPath = 4;

  [[nodiscard]] double others() const noexcept { return hosts_.count() - 1.0; }
  [[nodiscard]] double share(Rank host) const noexcept {
    constexpr std::size_t kWhole = std::size_t{1} << 52;  // what a double holds
    const std::size_t part = hosts_.elements_before(host + 1, kWhole) - hosts_.elements_before(host, kWhole);
    return static_cast<double>(part) / kWhole;
  }
  /// Of a host's share, each rank's; and of another host's, what each carries.
  [[nodiscard]] double part(Rank host) const noexcept { return share(host) / hosts_.size_of(host); }
  [[nodiscard]] double half(Rank host) const noexcept {
    return counts_inside_ * (1 - 1.0 / hosts_.size_of(host));
  }
  [[nodiscard]] double both_halves(Rank host) const noexcept {
    const double carried = (1 - share(host)) / hosts_.size_of(host);
    return 2 * half(host) + carried + others() * part(host);
  }
  /// The first of the largest, as cost() has it.
  [[nodiscard]] Rank host_of_root() const noexcept {
    return hosts_.host_of(hosts_.ranks_at(hosts_.most_ranks() - 1).front());
  }
  /// The root does what everybody does in an all_reduce.
  [[nodiscard]] double of_rooted() const { return std::max(both_halves(host_of_root()), of_owner()); }

  template <class Of>
  [[nodiscard]] double most_of_hosts(const Of& of) const {
    double most = 0;
    for (Rank host = 0; host < hosts_.count(); ++host) most = std::max(most, of(host));
    return most;
  }
  template <class Of>
  [[nodiscard]] double longest_of(const Of& of) const {
    return hosts_.count() > kHostsOfLongestPath ? 0 : most_of_hosts(of);
  }
  template <class Of>
  [[nodiscard]] double longest_beside(Rank one, const Of& of) const {
    return longest_of([&](Rank host) { return host == one ? 0.0 : of(host); });
  }
  // The longest messages, and ways that end with the host, or begin with it:
  [[nodiscard]] double longest_inside(Rank host) const noexcept {
    const Rank size = hosts_.size_of(host);
    return size == 1 ? 0 : counts_inside_ / size;
  }
  /// Of a slice of the owner's, to or from that host.
  [[nodiscard]] double slice(Rank owner, Rank host) const noexcept {
    return share(owner) / std::max(hosts_.size_of(owner), hosts_.size_of(host));
  }
  [[nodiscard]] double combined(Rank host) const {
    return longest_beside(host, [&](Rank other) {
      return std::max(longest_inside(other) + slice(host, other), longest_inside(host) + slice(other, host));
    });
  }
  [[nodiscard]] double gathered(Rank host) const {
    return longest_beside(host, [&](Rank other) {
      return slice(host, other) + std::max(longest_inside(host), longest_inside(other));
    });
  }

  const Hosts& hosts_;
  const double counts_inside_;
};

/// Of which so many bytes leave a host, on the path or of the rank that counts there.
Cost moving(Cost cost, double bytes, double bytes_across) {
  cost.bytes_moved = bytes;
  cost.bytes_moved_inside = bytes - bytes_across;
  return cost;
}

/// Combined inside and across, for vectors of so many bytes in all; without what one rank moves.
Cost phase(double all_bytes, const Sizes& of) {
  const double has_inside = of.most > 1 ? 1 : 0;
  const double has_across = of.hosts > 1 ? 1 : 0;
  return {.rounds = has_inside + has_across,
          .messages = of.messages_inside + of.messages_across,
          .bytes_by_all = all_bytes * (of.ranks - 1),
          .rounds_inside = has_inside,
          .messages_inside = of.messages_inside,
          .bytes_by_all_inside = all_bytes * (of.ranks - of.hosts)};
}

/// Of blocks: most comes to a rank of a largest host, and over the network to one of a smallest.
Cost phase_of_blocks(std::size_t bytes, const Sizes& of) {
  const double n = static_cast<double>(bytes);
  return moving(phase(n * of.ranks, of), n * (of.ranks * (1 - 1 / of.most) + of.hosts - 1),
                n * (of.ranks - of.least) / of.least);
}

/// What is between a root and the slices of all ranks, either way; without what one rank moves.
Cost rooted(double bytes, const Sizes& of, const Hosts& hosts) {
  const double has_inside = of.most > 1 ? 1 : 0;
  const double has_across = of.hosts > 1 ? 1 : 0;
  const double inside = bytes * (1 - 1 / of.most);
  const double across = bytes * OfVector(hosts, OfVector::Counts::all).beside_root();
  return {.rounds = has_inside + has_across,
          .messages = of.most - 1 + of.messages_of_most,
          .bytes_by_all = inside + across,
          .rounds_inside = has_inside,
          .messages_inside = of.most - 1,
          .bytes_by_all_inside = inside};
}

/// All phases of an operator on a vector, of which one rank moves what `moved` says.
Cost of_vector(const Cost& phases, double bytes, const Hosts& hosts, double (OfVector::*moved)() const) {
  const OfVector all(hosts, OfVector::Counts::all);
  const OfVector across(hosts, OfVector::Counts::only_across);
  return moving(phases, bytes * (all.*moved)(), bytes * (across.*moved)());
}

Cost reducing(Cost cost, double bytes) {
  cost.bytes_reduced = bytes;
  return cost;
}
/// As much as the busiest rank of a vector's owners gets.
Cost reducing_vector(const Cost& cost, double bytes, const Hosts& hosts) {
  return reducing(cost, bytes * OfVector(hosts, OfVector::Counts::all).of_owner());
}

}  // namespace

Cost cost_of_all_reduce(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const Cost half = phase(n, Sizes(hosts));
  const Cost cost = of_vector(half + half, n, hosts, &OfVector::of_all_reduce);
  return reducing_vector(cost, n, hosts).copying(2 * n);
}

Cost cost_of_reduce_scatter(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const bool is_one_pair = hosts.count() == 1 && hosts.ranks() == 2;  // which combines in place
  const Cost cost = phase_of_blocks(bytes, Sizes(hosts));
  return reducing(cost, cost.bytes_moved).copying(n * hosts.ranks() + (is_one_pair ? n : 0));
}

Cost cost_of_all_gather(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  return phase_of_blocks(bytes, Sizes(hosts)).copying(n * (hosts.ranks() + 1.0));
}

Cost cost_of_broadcast(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const Sizes sizes(hosts);
  const Cost phases = rooted(n, sizes, hosts) + phase(n, sizes);
  return of_vector(phases, n, hosts, &OfVector::of_broadcast).copying(n);
}

Cost cost_of_reduce(std::size_t bytes, const Hosts& hosts) {
  const double n = static_cast<double>(bytes);
  const Sizes sizes(hosts);
  const Cost phases = phase(n, sizes) + rooted(n, sizes, hosts);
  const Cost cost = of_vector(phases, n, hosts, &OfVector::of_reduce);
  return reducing_vector(cost, n, hosts).copying(2 * n);
}

}  // namespace cohort::carrying
