// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/link_owner.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cohort {

/// The call that runs, or ran last, as its caller knows it: for what people are told.
///
/// Most calls are one message, and that one's signature is theirs. Some are made of several, each with a
/// sequence number and a signature of its own, which only ranks compare. Threads: the engine's.
class RunningCall {
 public:
  /// Which tensors of the call a message has, where it has any.
  struct Tensors {
    std::size_t first = 0;
    std::size_t end = 0;
    bool is_packed = false;  ///< the small ones of [first, end), else the one at `first`
  };

  explicit RunningCall(const RunningOperation& running) noexcept : running_(running) {}

  /// The next call: one message, which begins now.
  void begin() noexcept { ++number_; }
  /// The next call, before its first message.
  void begin(const Signature& whole) noexcept;
  /// It turns out to be one message, which begins now.
  void become_one_message() noexcept { whole_.reset(); }
  void begin_message() noexcept { is_between_ = false; }
  void set_tensors(const Tensors& tensors) noexcept { tensors_ = tensors; }
  void end_message() noexcept { is_between_ = true; }
  void end() noexcept {
    whole_.reset();
    measured_after_.reset();
  }
  /// It is over, and ranks measure before they go on.
  void begin_measuring() noexcept;

  /// Among the calls of its communicator; the first is 1.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// What all ranks agree on about all messages together; nothing where there is one.
  [[nodiscard]] const std::optional<Signature>& whole() const noexcept { return whole_; }
  [[nodiscard]] bool is_before_messages() const noexcept { return whole_ && message() == 0; }
  /// This rank is at work on it by itself: it waits for nobody.
  [[nodiscard]] bool is_between_messages() const noexcept { return whole_ && is_between_; }
  [[nodiscard]] bool is_in_later_message() const noexcept { return whole_ && message() > 1; }

  /// "all_reduce(float32 sum, 3 tensors)", or that ranks measure after it.
  [[nodiscard]] std::string what() const;
  /// " (message 2: tensor 1)"; empty where there is one message.
  [[nodiscard]] std::string part() const;
  /// "all_reduce(float32 sum, 3 tensors) #7 (message 2: tensor 1)".
  [[nodiscard]] std::string text() const;

 private:
  /// The one that runs, or ran last: 1 is the first.
  [[nodiscard]] std::uint64_t message() const noexcept { return running_.sequence - before_; }

  const RunningOperation& running_;
  std::uint64_t number_ = 0;
  std::optional<Signature> whole_;
  std::optional<Signature> measured_after_;
  std::optional<Tensors> tensors_;
  std::uint64_t before_ = 0;  ///< the sequence number of the last message before the call
  bool is_between_ = false;
};

}  // namespace cohort
