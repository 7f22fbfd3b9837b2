// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/output_stream.h>
#include <cohort/engine/mutex.h>

#include <functional>
#include <string_view>
#include <utility>

namespace cohort {

enum class OutputChannel : unsigned char { output, errors };

/// Where the output of all ranks of a job goes, and the launcher's own words. Texts never mix.
class JobOutput : Immovable {
 public:
  /// The descriptors stay the caller's.
  JobOutput(Engine& engine, int output, int errors);

  /// Writes the text in one piece when those before it are out. Does not fail: what cannot be written is
  /// dropped, and said once on the other channel. Throws only the cause of the scope.
  Task<> write(OutputChannel where, std::string_view text);

  /// Whether a reader has closed its end, as `head` does when it has seen enough.
  [[nodiscard]] bool reader_is_gone() const noexcept { return reader_is_gone_; }
  /// Whether something could not be written though somebody was to read it.
  [[nodiscard]] bool has_lost_text() const noexcept { return has_lost_text_; }
  /// Calls it when the reader goes.
  void when_reader_is_gone(std::function<void()> call) { when_reader_is_gone_ = std::move(call); }

 private:
  struct Channel {
    Channel(Engine& engine, int descriptor) : stream(engine, descriptor) {}
    OutputStream stream;
    Mutex own_turn;
    bool is_lost = false;
  };

  Channel& at(OutputChannel channel) noexcept { return channel == OutputChannel::output ? output_ : errors_; }
  Mutex& turn(Channel& channel) noexcept { return is_one_place_ ? output_.own_turn : channel.own_turn; }

  Channel output_;
  Channel errors_;
  const bool is_one_place_;
  bool reader_is_gone_ = false;
  bool has_lost_text_ = false;
  std::function<void()> when_reader_is_gone_ = [] {};
};

}  // namespace cohort
