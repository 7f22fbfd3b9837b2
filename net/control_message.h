// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/net/link_owner.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

/// What ranks tell each other beside the data: of fixed size, so that no length comes from a peer.
struct ControlMessage {
  enum class Type : std::uint8_t {
    hello = 1,  ///< once per connection: configuration, and descriptors of the sender's shared memory
    status,     ///< "I run this collective, and wait"; sent when it stalls
    query,      ///< as status, and asks the receiver for its own, of the same collective or of its last one
    revoke,     ///< the communicator is given up: kind, culprit, cause, the collective that failed
    goodbye,    ///< the sender leaves in good order after this collective
    lost,       ///< the sender's connection to rank `culprit` ended without a goodbye
    alive,      ///< the answer to `lost`: the sender's own connection to rank `culprit` is still there
    invite,     ///< the sender makes a group, which it calls `group`, with the receiver: GroupTable's words
    answer,     ///< to a `query`: "I have come to this collective", whether or not the sender waits
    accept,     ///< the sender's `group` is the one that the receiver calls `sequence`: GroupTable's words
    agree,      ///< all of `group` have accepted the sender; `signature.what` tells which of their groups
    gives_up,  ///< the sender gives up what it was at and closes its link to the receiver: a `revoke` follows
  };
  static constexpr std::uint32_t kMagic = 0x32637463;  // "ctc2"
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t magic = kMagic;
  Type type = Type::hello;
  std::uint8_t kind = 0;         ///< ErrorKind of a revoke
  std::uint8_t is_of_bytes = 0;  ///< of a revoke: Error::is_of_bytes()
  std::uint8_t reserved = 0;
  std::uint32_t culprit = kNobody;  ///< of a revoke; whom `lost` and `alive` are about
  /// The group that it is about, as the sender numbers it; 0: the communicator that was joined. Ranks are
  /// those of the group.
  GroupNumber group = 0;
  std::uint64_t sequence = 0;
  Signature signature;
  // Of what is passed on from neighbour to neighbour, see ControlRelay:
  std::uint64_t number = 0;        ///< the origin's own, upwards; of a hello: whether it goes by all ways
  std::uint32_t origin = kNobody;  ///< who says it; nobody: it is not passed on, and the sender's
  std::uint32_t to = kNobody;      ///< nobody: all
  std::array<char, 456> text{};    ///< of status, query and answer: in which call the sender is

  void set_text(std::string_view value) noexcept;
  /// Unprintable characters replaced; at most the field.
  [[nodiscard]] std::string text_for_people() const;

  /// What `teller` says. A cause that is longer than the field is cut between words, and says that this rank
  /// prints all of it; without memory, anywhere.
  [[nodiscard]] static ControlMessage revoke(const Error& cause, Rank teller) noexcept;
  /// The cause that a revoke carries.
  [[nodiscard]] Error cause() const;
  [[nodiscard]] bool is_passed_on() const noexcept { return origin != kNobody; }
  /// Whether a peer that is not told this waits in vain from then on.
  [[nodiscard]] bool is_last_word() const noexcept { return type == Type::revoke || type == Type::goodbye; }
};
static_assert(sizeof(ControlMessage) == 512);

}  // namespace cohort
