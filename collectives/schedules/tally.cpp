// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/tally.h>

#include <algorithm>

namespace cohort {

void Tally::add(const Message& message) {
  const State& sender = before_[message.from];
  const std::uint64_t path = sender.path + message.units;
  State& from = now_[message.from];
  State& to = now_[message.to];
  from.path = std::max(from.path, path);
  from.sent += message.units;
  to.path = std::max(to.path, path);
  to.rounds = std::max(to.rounds, sender.rounds + 1);
  to.received += message.units;
  to.combined += message.is_combined ? message.units : 0;
  messages_ += message.parts;
  units_ += message.units;
}

Tally::Figures Tally::figures() const {
  Figures figures{.messages = static_cast<double>(messages_), .by_all = static_cast<double>(units_)};
  for (const State& one : now_) {
    figures.rounds = std::max(figures.rounds, static_cast<double>(one.rounds));
    figures.moved =
        std::max(figures.moved, static_cast<double>(std::max({one.path, one.sent, one.received})));
    figures.reduced = std::max(figures.reduced, static_cast<double>(one.combined));
  }
  return figures;
}

}  // namespace cohort
