// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/io/socket.h>

#include <cstddef>
#include <optional>
#include <span>

namespace cohort {

/// Both ends of a new pipe. Programs started from here inherit neither unless told to.
struct Pipe {
  Descriptor read_end;
  Descriptor write_end;

  /// Throws ResourceLimit or SystemError.
  [[nodiscard]] static Pipe create();
};

/// The reading end of a pipe, on an engine.
class PipeReader {
 public:
  PipeReader() = default;
  PipeReader(Engine& engine, Descriptor read_end);

  [[nodiscard]] bool is_open() const noexcept { return descriptor_.is_open(); }
  /// Suspends until there are bytes or every writer has closed.
  Task<> until_readable();
  /// What is there, at most so much; 0: every writer has closed; nullopt: nothing there now. Throws
  /// SystemError.
  [[nodiscard]] std::optional<std::size_t> try_read(std::span<std::byte> into);
  void close() noexcept { descriptor_.close(); }

 private:
  Engine* engine_ = nullptr;
  Descriptor descriptor_;
};

}  // namespace cohort
