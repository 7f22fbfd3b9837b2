// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/net/control_graph.h>
#include <cohort/net/membership.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// What rank 0 and a member tell each other once they have proven who they are, as bytes. Everything has a
/// fixed size:
///
///     member                                   rank 0
///     introduction  who I am, my patience -->
///                                         <--  table, then a record per rank, when all have come; or
///                                              neighbours, then a record of each: the table comes over
///                                              the control connections then (ControlMesh)
///     waiting       so far, for these ranks -->        (only if connecting takes long)
///     ready         all my connections stand -->
///                                         <--  go, when all are ready
///
/// Either may send a refusal instead, which ends the joining. Rank 0 answers an introduction with `complete`
/// when all of its ranks are there already: another job may follow at the address. Errors: ProtocolError for
/// whatever these would not write.
namespace cohort {

inline constexpr std::size_t kJoinFrameBytes = 512;
inline constexpr std::size_t kPeerRecordBytes = 312;
/// Of a text on the wire.
inline constexpr std::size_t kMostFrameText = 496;

using JoinFrameBytes = std::array<std::byte, kJoinFrameBytes>;

struct JoinFrame {
  enum class Kind : std::uint8_t {
    introduction = 1,
    table,
    waiting,
    ready,
    go,
    refusal,
    complete,
    neighbours,
  };

  Kind kind = Kind::introduction;
  Duration patience{};                     ///< introduction: how long the member will wait for the others
  PeerInfo info;                           ///< introduction
  std::string text;                        ///< waiting: the ranks; complete: who has the rank; for people
  std::optional<Error> refusal;            ///< refusal: the cause, with its culprit
  ControlLinks links = ControlLinks::all;  ///< table, neighbours: what to connect with them
  std::uint32_t records = 0;               ///< neighbours: how many, unchecked
};

[[nodiscard]] std::string_view to_string(JoinFrame::Kind kind) noexcept;

[[nodiscard]] JoinFrameBytes encode_introduction(const PeerInfo& info, Duration patience);
[[nodiscard]] JoinFrameBytes encode_table(ControlLinks links);
[[nodiscard]] JoinFrameBytes encode_neighbours(ControlLinks links, std::uint32_t records);
/// ready, go.
[[nodiscard]] JoinFrameBytes encode_signal(JoinFrame::Kind kind);
[[nodiscard]] JoinFrameBytes encode_waiting(std::string_view for_ranks);
[[nodiscard]] JoinFrameBytes encode_complete(std::string_view who_has_the_rank);
/// What `teller` says: a longer cause is cut between words, and says that this rank prints all of it.
[[nodiscard]] JoinFrameBytes encode_refusal(const Error& cause, Rank teller);
/// `from` is the sender, for the error.
[[nodiscard]] JoinFrame decode_frame(std::span<const std::byte, kJoinFrameBytes> bytes,
                                     std::string_view from);

void encode_record(const PeerInfo& info, std::span<std::byte, kPeerRecordBytes> into);
[[nodiscard]] PeerInfo decode_record(std::span<const std::byte, kPeerRecordBytes> bytes,
                                     std::string_view from);

/// Cut to `most` letters, with everything but printable ASCII replaced: safe to print whoever wrote it.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most);

}  // namespace cohort
