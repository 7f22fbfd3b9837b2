// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/immovable.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace cohort::world {

/// One direction of a simulated stream: bytes on their way, bytes that have come, and how it ends.
///
/// Follows Linux: what came before a reset can still be read; then the error is told once, then the end.
class Pipe : Immovable {
 public:
  explicit Pipe(std::size_t capacity_bytes) noexcept : capacity_bytes_(capacity_bytes) {}
  ~Pipe();

  // The writer's end:
  [[nodiscard]] std::size_t room() const noexcept {
    return capacity_bytes_ - std::min(held_bytes_, capacity_bytes_);
  }
  /// At most room() bytes; descriptors are owned by the pipe from here on.
  void push(std::span<const std::byte> bytes, TimePoint arrives, std::vector<int> descriptors = {});
  /// As push(), but nobody will ever get them; their room stays taken.
  void lose(std::size_t bytes, TimePoint now) noexcept {
    held_bytes_ += bytes;
    lost_since_ = std::min(lost_since_, now);
  }
  /// kNever: nothing was.
  [[nodiscard]] TimePoint lost_since() const noexcept { return lost_since_; }
  /// Bytes that have not come yet.
  [[nodiscard]] std::size_t coming_bytes(TimePoint now) const noexcept;
  /// Passed and not received.
  [[nodiscard]] std::size_t held_descriptors() const noexcept;
  [[nodiscard]] TimePoint last_arrival() const noexcept { return last_arrival_; }
  /// Nothing follows; seen behind all bytes, and not before the moment.
  void end(TimePoint at) noexcept { ends_at_ = std::min(ends_at_, std::max(at, last_arrival_)); }
  /// What has not arrived by then never will.
  void reset(TimePoint at) noexcept { reset_at_ = std::min(reset_at_, at); }

  // The reader's end:
  /// When a read has something to tell; kNever if nothing is on its way.
  [[nodiscard]] TimePoint readable_at() const noexcept;
  /// Bytes that can be read now.
  [[nodiscard]] std::size_t readable_bytes(TimePoint now) const noexcept;
  /// Bytes, 0 at the end, or minus the error number (EAGAIN, ECONNRESET). Stops behind bytes that came with
  /// descriptors, which are appended.
  int read(std::span<std::byte> into, TimePoint now, std::vector<int>& descriptors);
  [[nodiscard]] bool is_reset(TimePoint now) const noexcept { return reset_at_ <= now; }
  [[nodiscard]] TimePoint reset_at() const noexcept { return reset_at_; }

 private:
  struct Chunk {
    std::vector<std::byte> bytes;
    TimePoint arrives;
    std::vector<int> descriptors;
    std::size_t taken = 0;
  };
  [[nodiscard]] bool is_there(const Chunk& chunk, TimePoint now) const noexcept {
    return chunk.arrives <= now && chunk.arrives <= reset_at_;
  }

  const std::size_t capacity_bytes_;
  std::size_t held_bytes_ = 0;
  std::deque<Chunk> chunks_;
  TimePoint last_arrival_{};
  TimePoint lost_since_ = kNever;
  TimePoint ends_at_ = kNever;
  TimePoint reset_at_ = kNever;
  bool has_told_reset_ = false;
};

}  // namespace cohort::world
