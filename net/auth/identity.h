// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/encryption.h>
#include <cohort/net/rank.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

/// Which job, and which communicator in it, a connection belongs to.
struct JobId {
  std::array<std::byte, 16> bytes{};

  friend bool operator==(const JobId&, const JobId&) = default;
};

/// The first 16 bytes of the SHA-256 of the communicator's name and of what tells one start of the job from
/// others: who has both alike meets, nobody else does.
[[nodiscard]] JobId job_id(std::string_view communicator_name, std::string_view start = {});

/// 32 hexadecimal digits.
[[nodiscard]] std::string to_string(const JobId& job);

/// What a connection is for. On the wire: the values stay.
enum class Purpose : std::uint8_t {
  join = 1,     ///< asking rank 0 for the table of ranks
  control = 2,  ///< liveness and errors between two ranks
  data = 3,     ///< a TCP link, one per lane
};

[[nodiscard]] std::string_view to_string(Purpose purpose) noexcept;

/// Who one end of a connection claims to be; true once the handshake has succeeded, as far as holders of the
/// secret are honest.
struct Identity {
  JobId job;
  Rank rank = 0;
  std::uint32_t world = 1;        ///< number of ranks that this process was told
  std::uint64_t incarnation = 0;  ///< random per joining: tells a restarted rank from its former self
  std::uint32_t pid = 0;          ///< as that process sees itself; for people
  Purpose purpose = Purpose::join;
  Lane lane = 0;
  GroupNumber group = 0;  ///< of a data connection: whose, as the rank that connects numbers it
  Encryption encryption = Encryption::allowed;
  std::uint32_t features =
      0;  ///< bits that both ends may act upon; carried and protected, not interpreted here

  friend bool operator==(const Identity&, const Identity&) = default;
};

/// Whether a connection between these is encrypted.
[[nodiscard]] constexpr bool is_encrypted_between(const Identity& one, const Identity& other) noexcept {
  return one.encryption == Encryption::required || other.encryption == Encryption::required;
}

/// For Identity::incarnation.
[[nodiscard]] std::uint64_t random_incarnation();

}  // namespace cohort
