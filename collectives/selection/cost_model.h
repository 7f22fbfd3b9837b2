// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/selection/network_speed.h>
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/hosts.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cohort {

/// What a schedule takes over TCP on hosts of a certain speed; the same numbers on all ranks, since all must
/// come to the same choice. What a schedule says it does inside of hosts it does over shared memory.
///
/// Where ranks share cores two things add up: the way from the first message to the last, each sent and taken
/// before the next one starts, and the work of all messages and bytes at both their ends, over the cores that
/// do it; or, if that is more, of the core whose rank sends more than others.
///
/// Where each rank has a core, messages are sent and taken while others are on their way: the longest counts
/// of the way, of a rank's messages on average, and of those of the rank that sends, or takes, most.
class CostModel {
 public:
  CostModel() = default;
  CostModel(const LinkSpeed& speed, Rank ranks, const NetworkSpeed& network = NetworkSpeed::none()) noexcept
      : CostModel(speed, InsideSpeed::beside(speed), ranks, network) {}
  CostModel(const LinkSpeed& speed, const InsideSpeed& inside, Rank ranks,
            const NetworkSpeed& network) noexcept
      : speed_(speed),
        inside_(inside),
        network_(network),
        ranks_(ranks),
        ranks_of_core_(std::clamp(speed.ranks_per_core, 1.0, std::max<double>(ranks, 1))),
        cores_(ranks / ranks_of_core_) {}

  [[nodiscard]] double estimate_us(const Cost& cost) const noexcept {
    const double moved = cost.bytes_moved - cost.bytes_moved_inside;
    const double by_all = cost.bytes_by_all - cost.bytes_by_all_inside;
    const double wire_us = network_.byte_us * std::max(moved, by_all / network_.ports);
    // All ranks copy at about the same time.
    const double steps_us =
        speed_.combine_us * cost.bytes_reduced + speed_.copy_us * cost.bytes_copied * ranks_of_core_;
    // Bytes pass both ends of a connection at the same time, so that they take half their work on the way.
    const double bytes_us =
        std::max(speed_.byte_us * moved / 2, wire_us) + inside_.byte_us * cost.bytes_moved_inside;
    return latency_us(cost) + steps_us +
           (has_core_each() ? with_core_each_us(cost, bytes_us) : on_shared_cores_us(cost, bytes_us));
  }
  [[nodiscard]] bool has_core_each() const noexcept { return ranks_of_core_ <= 1; }
  /// Whether what the network takes of a message is work of cores that ranks share, and so counts for each
  /// message in place of each round: one kernel passes it on.
  [[nodiscard]] bool is_network_work() const noexcept {
    return network_.is_in_one_machine && network_.is_tcp && !has_core_each();
  }
  [[nodiscard]] const LinkSpeed& speed() const noexcept { return speed_; }
  [[nodiscard]] const InsideSpeed& inside() const noexcept { return inside_; }
  [[nodiscard]] const NetworkSpeed& network() const noexcept { return network_; }

  /// One number of the model, for people: "message" 5 "us".
  struct Constant {
    std::string_view name;
    double value;
    std::string_view unit;
    bool is_default = false;  ///< assumed: nobody has measured it
  };
  [[nodiscard]] std::array<Constant, 9> constants() const noexcept {
    const bool assumed = !speed_.is_measured;
    const bool is_network_assumed = network_.ports > 1 && !network_.is_measured;
    return {
        {{"message", speed_.message_us, "us", assumed},
         {"byte", speed_.byte_us * 1e3, "ns", assumed},
         {"byte combined", speed_.combine_us * 1e3, "ns", assumed},
         {"byte copied", speed_.copy_us * 1e3, "ns", assumed},
         {"ranks per core", speed_.ranks_per_core, ""},
         {"network", network_.latency_us, "us", is_network_assumed},
         {"network byte", network_.byte_us * 1e3, "ns", is_network_assumed},
         {"message inside of a host", inside_.message_us + inside_.latency_us, "us", !inside_.is_measured},
         {"byte inside of a host", inside_.byte_us * 1e3, "ns", !inside_.is_measured}}};
  }

 private:
  static constexpr double kPartOfTaker = 1 - tuning::choosing::kPartOfSender;

  [[nodiscard]] double latency_us(const Cost& cost) const noexcept {
    const double ways = is_network_work() ? (cost.messages - cost.messages_inside) / cores_
                                          : cost.rounds - cost.rounds_inside;
    return network_.latency_us * ways + inside_.latency_us * cost.rounds_inside;
  }
  /// A core's time for one message after the other, from the first to the last.
  [[nodiscard]] double way_us(const Cost& cost) const noexcept {
    return speed_.message_us * (cost.rounds - cost.rounds_inside) + inside_.message_us * cost.rounds_inside;
  }
  /// Of all cores together, for all messages.
  [[nodiscard]] double messages_us(const Cost& cost) const noexcept {
    return speed_.message_us * (cost.messages - cost.messages_inside) +
           inside_.message_us * cost.messages_inside;
  }
  /// The same for all bytes.
  [[nodiscard]] double work_of_bytes_us(const Cost& cost) const noexcept {
    return speed_.byte_us * (cost.bytes_by_all - cost.bytes_by_all_inside) +
           inside_.byte_us * cost.bytes_by_all_inside;
  }
  /// Of the rank that sends more than others, if it is told: its part of its bytes.
  [[nodiscard]] double bytes_of_one_us(const Cost& cost) const noexcept {
    return tuning::choosing::kPartOfSender * speed_.byte_us * cost.bytes_of_one;
  }

  [[nodiscard]] double on_shared_cores_us(const Cost& cost, double bytes_us) const noexcept {
    const double work_us = tuning::choosing::kWorkOfSharedCore * messages_us(cost) + work_of_bytes_us(cost);
    return way_us(cost) + std::max(bytes_us + work_us / cores_, busiest_us(cost, work_us));
  }
  /// Of the core on which a rank sends more than others: its own, and the part of the others' that is there.
  [[nodiscard]] double busiest_us(const Cost& cost, double work_us) const noexcept {
    const double own = tuning::choosing::kPartOfSender * tuning::choosing::kWorkOfSharedCore *
                           speed_.message_us * cost.messages_of_one +
                       bytes_of_one_us(cost);
    if (own == 0 || ranks_ <= 1) return 0;
    return own + std::max(0.0, work_us - own) * (ranks_of_core_ - 1) / (ranks_ - 1);
  }

  [[nodiscard]] double with_core_each_us(const Cost& cost, double bytes_us) const noexcept {
    const double of_one = tuning::choosing::kPartOfSender * cost.messages_of_one + kPartOfTaker;
    const double to_one = tuning::choosing::kPartOfSender + kPartOfTaker * cost.messages_to_one;
    const double most =
        std::max(cost.messages_of_one == 0 ? 0 : of_one, cost.messages_to_one == 0 ? 0 : to_one);
    return tuning::choosing::kAcrossCores *
               std::max({way_us(cost), messages_us(cost) / ranks_, most * speed_.message_us}) +
           std::max(bytes_us + work_of_bytes_us(cost) / ranks_, bytes_of_one_us(cost));
  }

  LinkSpeed speed_;
  InsideSpeed inside_;
  NetworkSpeed network_ = NetworkSpeed::none();
  double ranks_ = 1;
  double ranks_of_core_ = 1;
  double cores_ = 1;
};

/// How the ranks of a communicator reach each other, as selection sees it.
struct Reach {
  bool is_host_wide = false;     ///< all ranks on this host, over shared memory
  Hosts hosts{};                 ///< who shares memory
  std::size_t buffer_bytes = 0;  ///< of each CCL buffer
  CostModel model{};
  SlotCrossover slots{};
  PullCrossover pull{};

  [[nodiscard]] Rank ranks() const noexcept { return hosts.ranks(); }
};

}  // namespace cohort
