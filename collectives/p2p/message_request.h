// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/intrusive_list.h>
#include <cohort/net/rank.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort {

/// Where a recv() stands, for whoever wants it back as long as nobody has sent to it.
///
/// Threads: the engine's. Lifetime: outlives the recv().
class PostedReceive {
 public:
  /// What comes from now on goes to others. False, and it goes on to its end: it has its message already.
  [[nodiscard]] bool withdraw() noexcept {
    if (hook_ != nullptr) hook_->unlink();
    return !is_matched_;
  }
  void begin(ListHook& hook) noexcept { hook_ = &hook; }
  void end(bool is_matched) noexcept {
    is_matched_ |= is_matched;
    hook_ = nullptr;
  }
  /// Whether it failed because its buffer does not hold the message.
  [[nodiscard]] bool is_too_short() const noexcept { return is_too_short_; }
  void refuse() noexcept { is_too_short_ = true; }

 private:
  ListHook* hook_ = nullptr;  ///< while it is posted
  bool is_matched_ = false;
  bool is_too_short_ = false;
};

/// One send(), recv() or probe as the caller asked for it.
struct MessageRequest {
  static constexpr Rank kAnybody = ~Rank{0};
  /// What it does instead of receiving: waits for a message, and leaves it there for a recv(), or puts it
  /// aside for the one that names its claim.
  enum class Probe : std::uint8_t { none, looks, claims };

  bool sends = false;
  Rank peer = 0;
  std::int32_t tag = 0;
  std::byte* data = nullptr;  ///< only read by a send
  std::size_t bytes = 0;
  Duration timeout{0};  ///< zero: the communicator's

  bool is_synchronous = false;  ///< of a send: over only when it is received
  // Of what receives, or looks:
  bool takes_any_tag = false;  ///< `tag` is not looked at
  bool takes_less = false;     ///< the message may be shorter than `bytes`
  Probe probe = Probe::none;
  std::uint64_t claim = 0;          ///< receives what was put aside as that; 0: what comes
  PostedReceive* posted = nullptr;  ///< of a recv() that may be withdrawn

  [[nodiscard]] std::span<const std::byte> memory() const noexcept { return {data, bytes}; }
  [[nodiscard]] bool wants_tag(std::int32_t of) const noexcept { return takes_any_tag || of == tag; }
  [[nodiscard]] bool has_room_for(std::size_t message) const noexcept {
    return message == bytes || (takes_less && message < bytes);
  }
};

/// A message that was received, or is there: what its receiver may not have known.
struct Envelope {
  Rank from = 0;
  std::int32_t tag = 0;
  std::size_t bytes = 0;
  std::uint64_t claim = 0;  ///< of one that was put aside
};

}  // namespace cohort
