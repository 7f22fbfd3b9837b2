// SPDX-License-Identifier: Apache-2.0
#pragma once

// Without what the library is made of, for torch's side, too.
namespace cohort::bindings {

/// Asked every 50 ms by a thread that waits in the library: whether its program wants it back.
class Interrupt {
 public:
  /// True: what the thread waits for is cancelled. Asked until then. May itself call the library, as handlers
  /// of signals do. Must not throw.
  virtual bool is_wanted() noexcept = 0;

 protected:
  ~Interrupt() = default;
};

}  // namespace cohort::bindings
