// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <cstdint>
#include <optional>

namespace cohort {

/// What the kernel tells of an open TCP connection, as far as it shows whether the other end's host answers
/// (tcp(7), TCP_INFO).
struct TcpState {
  std::uint32_t unacknowledged_segments = 0;
  std::uint32_t unsent_bytes = 0;  ///< that have left this host not even once
  std::uint32_t window_bytes = 0;  ///< for which the other end has last said that it has room
  std::uint32_t probes = 0;        ///< without an answer: keepalive, or whether there is room again
  std::uint64_t acknowledged_bytes = 0;
  Duration since_answer{};    ///< the last one, to whatever was sent
  Duration retransmission{};  ///< after so long what is not answered is sent again

  /// Whether the kernel is to have an answer to data; not to a keepalive probe.
  [[nodiscard]] bool awaits_answer() const noexcept {
    return unacknowledged_segments != 0 || unsent_bytes != 0;
  }
};

/// For how long no answer has come that is due; zero if none is. A probe that is lost says nothing: where
/// nothing is to be sent, or the other end has no room and is asked at growing intervals, several of them
/// have to be unanswered.
///
/// What cannot leave this host (no link, no route, no address) stays unsent though there is room, is tried
/// again, and counts here as what is lost on its way.
[[nodiscard]] Duration silence(const TcpState& state) noexcept;

/// Decides that the host at the other end of a connection is lost: by regular looks, kLooks in the time after
/// which it is.
///
/// It is lost when no answer that is due has come for that time, or when data have waited for so long though
/// there is room for them: words may come from a host to which nothing comes. A host that is alive, however
/// busy, acknowledges what comes for it, or says that it has no room: that one is not lost. What was sent a
/// moment ago has had no time for an answer, so that two looks in succession have to find it over.
class HostWatch {
 public:
  static constexpr int kLooks = 10;

  /// Whether the host is lost.
  [[nodiscard]] bool look(const TcpState& state, TimePoint now, Duration longest) noexcept;
  /// Whether the last look found half of that over, or keepalive probes unanswered: a connection that then
  /// ends has been ended by the other end for the same reason, most likely.
  [[nodiscard]] bool is_in_doubt() const noexcept { return is_in_doubt_; }

 private:
  std::optional<TimePoint> waiting_since_;  ///< for an acknowledgement, as far as looks have seen it
  std::uint64_t acknowledged_bytes_ = 0;
  bool was_over_ = false;
  bool is_in_doubt_ = false;
};

}  // namespace cohort
