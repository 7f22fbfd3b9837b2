// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cohort {

/// Why a connection was not taken. The values are dense, so that they can index counters.
enum class RefusalReason : std::uint8_t {
  not_cohort,       ///< another protocol: a browser, a scanner, the wrong port
  truncated,        ///< the stream ended within a message
  malformed,        ///< ours by its first bytes, but not a message that is allowed here
  version,          ///< another version of the handshake
  bad_mac,          ///< another secret, or bytes changed on the way, or a replay
  wrong_job,        ///< the same secret, another communicator
  world_mismatch,   ///< the two ends were told different numbers of ranks
  rank_range,       ///< a rank that is not below the number of ranks
  same_rank,        ///< the peer claims the rank of this process
  wrong_purpose,    ///< the listener does not take this kind of connection, or this lane
  unexpected_peer,  ///< an honest rank, but not the one (or not the incarnation) that was called
  encryption,       ///< one end requires it, the other forbids it
  declined,         ///< the peer has the secret and does not want this connection; its own log says why
};

inline constexpr std::size_t kRefusalReasons = 13;

[[nodiscard]] std::string_view to_string(RefusalReason reason) noexcept;

/// Why a connection was not taken, for counters, the local log and, where `is_authenticated`, the user.
struct Refusal {
  RefusalReason reason;
  /// The peer has proven that it knows the secret: its claims may end the join with an error. Otherwise
  /// anybody can cause this refusal, and it must do no more than close the connection and count.
  bool is_authenticated = false;
  std::string text;  ///< who, what and what to do; bytes of the peer in it are escaped

  /// The refusal as the error of the end that cannot go on without this connection.
  [[nodiscard]] Error to_error() const;
};

/// Looks at the first bytes of a stream, as many as have come, and refuses what cannot become a message of
/// ours: a browser waits for an answer after fewer bytes than a HELLO has. Names HTTP, TLS and SSH. `where`
/// is the address.
[[nodiscard]] std::optional<Refusal> refuse_foreign(std::span<const std::byte> first, std::string_view where);

}  // namespace cohort
