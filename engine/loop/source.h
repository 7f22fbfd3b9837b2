// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/intrusive_list.h>

namespace cohort {

/// Something that the loop polls besides its driver: shared-memory notifies, completion queues of a network
/// card.
class Source : public ListHook {
 public:
  /// Moves what has completed to the ready queue; true if anything did. Must be cheap: it runs every turn.
  /// Where it moves bytes, some ten microseconds' worth at a time: a long turn ends behind it.
  virtual bool poll() noexcept = 0;
  /// Whether anything waits for what poll() would find.
  [[nodiscard]] virtual bool is_waited_for() const noexcept = 0;
  /// Before the loop sleeps: makes sure that the driver wakes it. False: something is ready already, do not
  /// sleep.
  [[nodiscard]] virtual bool arm() noexcept = 0;
  /// After a sleep.
  virtual void disarm() noexcept = 0;

 protected:
  ~Source() = default;
};

}  // namespace cohort
