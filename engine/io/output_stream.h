// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/io/socket.h>

#include <string_view>

namespace cohort {

/// Writing to a descriptor that others share, such as standard output, without blocking the loop and without
/// changing it for them.
///
/// A terminal or pipe is opened a second time for that; a file or socket needs it not. One write at a time.
class OutputStream {
 public:
  /// `descriptor` stays the caller's and outlives this object.
  OutputStream(Engine& engine, int descriptor);

  /// All of it, waiting as long as the reader is slow. False: nobody reads any more (never SIGPIPE). Throws
  /// SystemError.
  Task<bool> write(std::string_view text);

  /// Whether both go to the same terminal, pipe or file, where pieces of lines could mix.
  [[nodiscard]] bool is_same_place(const OutputStream& other) const noexcept;

 private:
  enum class Kind : unsigned char { file, socket, stream, blocking_stream };

  [[nodiscard]] long write_now(std::string_view text) noexcept;

  Engine* engine_;
  int descriptor_;
  Kind kind_ = Kind::file;
  Descriptor reopened_;
};

}  // namespace cohort
