// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/io/ports.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace cohort {

/// Reserved ports, each for a while: for listeners that may never come. One that is let go of is still free
/// for its listener, unless somebody else has taken it. Threads: one at a time.
class ReservedPorts {
 public:
  explicit ReservedPorts(Duration kept) noexcept : kept_(kept) {}

  /// Lets those go whose time is over, and then reserves another one, as a ReservedPort does. The address is
  /// there until the next call.
  const Address& add(const Address& host, const std::optional<PortRange>& range, TimePoint now) {
    while (!ports_.empty() && ports_.front().until <= now) ports_.pop_front();
    return ports_.emplace_back(ReservedPort(host, range), after(now, kept_)).port.address();
  }
  [[nodiscard]] std::size_t size() const noexcept { return ports_.size(); }

 private:
  struct Kept {
    Kept(ReservedPort of, TimePoint end) : port(std::move(of)), until(end) {}
    ReservedPort port;
    TimePoint until;
  };

  const Duration kept_;
  std::deque<Kept> ports_;  ///< the oldest first
};

}  // namespace cohort
