// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/io/address.h>
#include <cohort/engine/io/socket.h>

#include <string>
#include <string_view>

namespace cohort {

/// Lines in both directions on a connection to the program that started this one. Blocks, with deadlines:
/// before the engine runs. Threads: one.
class LineChannel {
 public:
  /// No line is longer.
  static constexpr std::size_t kLongestLine = 64 * 1024;

  /// One that was inherited, whose number stays what it is: others of this process may use it before or
  /// afterwards.
  explicit LineChannel(int inherited) noexcept : number_(inherited) {}
  /// A new connection. Throws SystemError.
  LineChannel(const Address& to, Duration patience);

  /// Whether the inherited number is a connection at all.
  [[nodiscard]] bool is_connection() const noexcept;

  /// With its end added. Throws SystemError; DeadlineExceeded.
  void send(std::string_view line, Duration patience);
  /// Without its end. Throws SystemError, LinkFault at the end of the stream, DeadlineExceeded.
  [[nodiscard]] std::string receive(Duration patience);

 private:
  void wait(short events, TimePoint until) const;

  Descriptor own_;
  int number_ = -1;
  std::string received_;
};

}  // namespace cohort
