// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/topology.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace cohort::sim {
namespace {

void require(bool is_right, const std::string& text) {
  if (!is_right) throw Error(ErrorKind::InvalidArgument, "topology: " + text);
}

void check(std::string_view name, const LinkSpeed& speed) {
  const double least =
      std::min({speed.latency_ns, speed.message_ns, speed.gap_ns, speed.core_gigabytes_per_second});
  require(speed.gigabytes_per_second > 0 && least >= 0,
          fmt::format("{} needs a bandwidth above 0, and nothing below 0", name));
}

}  // namespace

void check(const Topology& t, Rank ranks) {
  require(ranks >= 2, fmt::format("{} ranks: at least 2 are needed", ranks));
  require(t.ranks_per_host > 0, "ranks_per_host starts at 1");
  require(t.oversubscription > 0, "oversubscription is above 0");
  require(std::min({t.copy_gigabytes_per_second, t.reduce_gigabytes_per_second, t.switch_latency_ns,
                    t.core_switch_ns}) >= 0,
          "speeds and latencies are at least 0");
  check("inside", t.inside);
  check("network", t.network);
  check(t.faults, ranks);
}

}  // namespace cohort::sim
