// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/cancel_scope.h>
#include <cohort/engine/operation.h>

#include <cstdint>

namespace cohort {

/// Is told what the streams of a schedule do, and answers what they wait for: a machine without real memory.
///
/// A machine gives itself to the ScheduleStreams of its Exec; on real memory there is none. Of all streams
/// that report to one watcher, one runs at a time. Identities are never used twice: not by a notify that lies
/// where another one lay.
class StreamWatcher : Immovable {
 public:
  using Stream = std::uint32_t;
  using NotifyId = std::uint32_t;

  /// The stream whose code runs now.
  [[nodiscard]] virtual Stream running() const noexcept = 0;
  /// The next sub stream of `parent` begins, and runs at once; its waits are cancelled by `scope`.
  virtual void starts(Stream parent, const CancelScope& scope) noexcept = 0;
  /// Back in `parent`: the sub stream that it started has suspended, or it is over.
  virtual void has_started(Stream parent) noexcept = 0;
  /// The running stream is over.
  virtual void ends(bool has_failed) noexcept = 0;
  /// All sub streams of `parent` are over, and it goes on.
  virtual void joins(Stream parent) noexcept = 0;

  /// The running stream makes a notify that may hold `limit` posts which nobody has taken.
  [[nodiscard]] virtual NotifyId makes_notify(std::uint32_t limit) = 0;
  virtual void notify_is_gone(NotifyId notify) noexcept = 0;
  /// The running stream posts.
  virtual void posts(NotifyId notify) noexcept = 0;
  /// The running stream wants a post. True: there was one, and it is taken. May throw.
  [[nodiscard]] virtual bool takes_post(NotifyId notify) = 0;
  /// There was none, and it suspends until the watcher completes `wait`, having taken a post for it.
  virtual void awaits_post(NotifyId notify, Operation& wait) noexcept = 0;

 protected:
  ~StreamWatcher() = default;
};

}  // namespace cohort
