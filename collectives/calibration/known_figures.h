// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/selection/link_speed.h>
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>
#include <cohort/engine/system/figure_cache.h>
#include <cohort/engine/system/platform.h>
#include <cohort/net/membership.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// What ranks of this host measured when they joined earlier jobs, under the same conditions: what links cost
/// its cores, the ways of small calls, and the network to certain other hosts. Kept in a FigureCache.
///
/// Each rank knows what its own user's file says: ranks use it only where all of them know, and agree on the
/// numbers as on those that they measure. Threads: the engine's.
class KnownFigures {
 public:
  /// What is measured together on one host, as numbers in fixed places; 0 where nothing is.
  static constexpr std::size_t kSlotFigures = kOperators * SlotCrossover::kSizes.size() * 2;
  static constexpr std::size_t kPullFigures = PullCrossover::kSizes.size() * kPullUses * 2;
  using OfSlots = std::array<double, kSlotFigures>;
  using OfPull = std::array<double, kPullFigures>;
  /// Latency and byte of the network, latency and byte inside of hosts, over how many connections large
  /// messages are spread; 0 where nothing is measured.
  struct OfNetwork : std::array<double, 5> {};

  /// By COHORT_CACHE; of a simulated host nothing is known, and nothing is kept. `conditions`: what besides
  /// the host the figures depend on, without blanks.
  /// `hosts`: if given, they depend on whose hosts these are, too, and on which of their addresses data
  /// comes.
  KnownFigures(Platform& platform, std::string_view conditions, const Membership* hosts = nullptr);

  /// What links cost a core. ranks_per_core and caches are not among it: they are facts of now.
  [[nodiscard]] std::optional<LinkSpeed> speed() const;
  void keep(const LinkSpeed& measured) const;
  [[nodiscard]] std::optional<OfSlots> slots() const { return find<OfSlots>("slots"); }
  void keep(const OfSlots& figures) const { cache_.keep(key("slots"), figures); }
  [[nodiscard]] std::optional<OfPull> pull() const { return find<OfPull>("pull"); }
  void keep(const OfPull& figures) const { cache_.keep(key("pull"), figures); }

  /// Others may use the network otherwise tomorrow.
  [[nodiscard]] std::optional<OfNetwork> network() const {
    return find<OfNetwork>("network", std::chrono::hours(24));
  }
  void keep(const OfNetwork& figures) const { cache_.keep(key("network"), figures); }

  /// What figures of that name, as "network", are kept as.
  [[nodiscard]] std::string key(std::string_view what) const;

  [[nodiscard]] static OfSlots figures_of(const SlotCrossover& measured);
  /// Takes them, operator by operator.
  static void give(const OfSlots& figures, SlotCrossover& to);
  [[nodiscard]] static OfPull figures_of(const PullCrossover& measured);
  static void give(const OfPull& figures, std::size_t core_cache_bytes, PullCrossover& to);

 private:
  template <class Figures>
  [[nodiscard]] std::optional<Figures> find(std::string_view what,
                                            std::chrono::hours most_age = FigureCache::kMostAge) const {
    const std::vector<double> found = cache_.find(key(what), most_age);
    Figures figures{};
    if (found.size() != figures.size()) return std::nullopt;
    std::copy(found.begin(), found.end(), figures.begin());
    return figures;
  }

  FigureCache cache_;
  std::string conditions_;
};

}  // namespace cohort
