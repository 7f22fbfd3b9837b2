// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>
#include <cohort/collectives/selection/network_speed.h>
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>
#include <cohort/net/hosts.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cohort {

/// What a schedule takes over TCP on hosts of a certain speed; the same numbers on all ranks, since all must
/// come to the same choice. What a schedule says it does inside of hosts it does over shared memory.
///
/// Two things add up: the way from the first message to the last, each of which is sent and taken before the
/// next one starts, and the work of all messages and bytes at both their ends, over the cores that do it; or,
/// if that is more, of the core whose rank sends more than others. Against measured times of all algorithms
/// of all operators, 2, 4 and 8 ranks on 2 cores, 8 B to 4 MiB: in 337 of 363 cells what it takes is within
/// 10 % of the best, and on average 2.1 % above it; 323 cells and 3.0 % without those that send more.
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
    const double rounds_us = (speed_.message_us + network_.latency_us) * (cost.rounds - cost.rounds_inside) +
                             (inside_.message_us + inside_.latency_us) * cost.rounds_inside +
                             speed_.combine_us * cost.bytes_reduced +
                             speed_.copy_us * cost.bytes_copied * ranks_of_core_;
    // Bytes pass both ends of a connection at the same time, so that they take half their work on the way.
    const double bytes_us =
        std::max(speed_.byte_us * moved / 2, wire_us) + inside_.byte_us * cost.bytes_moved_inside;
    return rounds_us + std::max(bytes_us + work_us(cost) / cores_, busiest_us(cost));
  }
  [[nodiscard]] const LinkSpeed& speed() const noexcept { return speed_; }
  [[nodiscard]] const InsideSpeed& inside() const noexcept { return inside_; }
  [[nodiscard]] const NetworkSpeed& network() const noexcept { return network_; }

  /// One number of the model, for people: "message" 5 "us".
  struct Constant {
    std::string_view name;
    double value;
    std::string_view unit;
  };
  [[nodiscard]] std::array<Constant, 9> constants() const noexcept {
    return {{{"message", speed_.message_us, "us"},
             {"byte", speed_.byte_us * 1e3, "ns"},
             {"byte combined", speed_.combine_us * 1e3, "ns"},
             {"byte copied", speed_.copy_us * 1e3, "ns"},
             {"ranks per core", speed_.ranks_per_core, ""},
             {"network", network_.latency_us, "us"},
             {"network byte", network_.byte_us * 1e3, "ns"},
             {"message inside of a host", inside_.message_us + inside_.latency_us, "us"},
             {"byte inside of a host", inside_.byte_us * 1e3, "ns"}}};
  }

 private:
  /// Where ranks share cores, a message also costs a change from one to another, which takes as long again.
  static constexpr double kWorkOfSharedCore = 2;
  /// Of the work of a message or byte, at the end that sends it: the kernel takes it to its receiver's queue
  /// at once.
  static constexpr double kPartOfSender = 0.8;

  [[nodiscard]] double work_factor() const noexcept { return ranks_of_core_ > 1 ? kWorkOfSharedCore : 1; }
  /// Of all cores together.
  [[nodiscard]] double work_us(const Cost& cost) const noexcept {
    const double messages_us = speed_.message_us * (cost.messages - cost.messages_inside) +
                               inside_.message_us * cost.messages_inside;
    return work_factor() * messages_us + speed_.byte_us * (cost.bytes_by_all - cost.bytes_by_all_inside) +
           inside_.byte_us * cost.bytes_by_all_inside;
  }
  /// Of the core on which a rank sends more than others: its own, and the part of the others' that is there.
  [[nodiscard]] double busiest_us(const Cost& cost) const noexcept {
    const double own = kPartOfSender * (work_factor() * speed_.message_us * cost.messages_of_one +
                                        speed_.byte_us * cost.bytes_of_one);
    if (own == 0 || ranks_ <= 1) return 0;
    return own + std::max(0.0, work_us(cost) - own) * (ranks_of_core_ - 1) / (ranks_ - 1);
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
