// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort::check {

/// What kind of promise a schedule breaks.
///
/// In the order in which causes come before what follows from them.
enum class FindingKind : std::uint8_t {
  bounds,        ///< a slice outside its window, or sizes that do not match
  usage,         ///< a link, window or notify used in a way that its contract forbids
  failure,       ///< the schedule threw
  conflict,      ///< two accesses to the same bytes, one of them a write, without order between them
  notify,        ///< a post that nobody takes, or one that comes before the last was taken
  deadlock,      ///< somebody waits for ever
  contribution,  ///< a result lacks a contribution, has one twice, or has another in its place
  reduction,     ///< combined by another operation, as another type, or in orders that differ between ranks
  agreement,     ///< a rank leaves before it has heard of all that it needs
  cost,          ///< the declared cost, or what was moved, cannot be
};
inline constexpr std::size_t kFindingKinds = 10;
[[nodiscard]] std::string_view to_string(FindingKind kind) noexcept;

/// Something wrong, where, and what to do about it.
struct Finding {
  FindingKind kind{};
  Rank rank = 0;
  std::string stream;      ///< "main stream", "stream 3"; empty where no one task is to blame
  std::uint32_t task = 0;  ///< in that stream, from 1
  std::uint32_t operation = 0;
  std::string text;  ///< in words, all of it
};

}  // namespace cohort::check
