// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>

#include <array>
#include <vector>

namespace cohort {

/// Counts what a schedule comes to, message by message, from its rules alone: for costs that no short formula
/// has. In units of one slice.
///
/// Messages of one round go out at once: each rank sends at most one, of one part or several, and gets at
/// most one.
class Tally {
 public:
  explicit Tally(Rank ranks) : before_(ranks), now_(ranks) {}

  struct Message {
    Rank from = 0;
    Rank to = 0;
    Rank units = 0;
    Rank parts = 1;
    bool is_combined = false;  ///< with what the receiver has
  };
  void add(const Message& message);
  /// What has been added so far comes before what follows.
  void end_round() { before_ = now_; }

  /// All of it, in units of bytes for the cost of one unit.
  struct Figures {
    double rounds = 0;
    double moved = 0;
    double reduced = 0;
    double messages = 0;
    double by_all = 0;

    [[nodiscard]] Cost cost(double unit_bytes) const noexcept {
      return {.rounds = rounds,
              .bytes_moved = moved * unit_bytes,
              .bytes_reduced = reduced * unit_bytes,
              .messages = messages,
              .bytes_by_all = by_all * unit_bytes};
    }
  };
  [[nodiscard]] Figures figures() const;

  /// count(ranks), counted once as long as a thread asks for a few numbers of ranks. Good until it asks
  /// again.
  template <Tally (*count)(Rank)>
  [[nodiscard]] static const Figures& of(Rank ranks) {
    struct Known {
      Rank ranks = 0;
      Figures figures;
    };
    thread_local std::array<Known, 8> known;
    Known& place = known[ranks % known.size()];
    if (place.ranks != ranks) place = {ranks, count(ranks).figures()};
    return place.figures;
  }

 private:
  struct State {
    std::uint32_t rounds = 0;  ///< messages that followed one another
    std::uint64_t path = 0;    ///< units that did
    std::uint64_t sent = 0;    ///< by this rank
    std::uint64_t received = 0;
    std::uint64_t combined = 0;
  };

  std::vector<State> before_;
  std::vector<State> now_;
  std::uint64_t messages_ = 0;
  std::uint64_t units_ = 0;
};

}  // namespace cohort
