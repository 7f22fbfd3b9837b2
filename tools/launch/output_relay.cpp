// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/output_relay.h>

#include <cohort/engine/error.h>

#include <exception>
#include <optional>

namespace cohort {
namespace {

/// Enough for what a pipe holds, and an end for a writer that never pauses.
constexpr std::size_t kMostBytesAfterStop = 1 << 20;

}  // namespace

Task<> OutputRelay::run(std::span<std::byte> scratch) {
  end_.record();
  std::exception_ptr failure;
  try {
    co_await carry(scratch);
  } catch (...) {
    failure = std::current_exception();
  }
  from_.close();
  is_over_ = true;
  end_.reach(nullptr);
  if (failure) std::rethrow_exception(failure);
}

Task<> OutputRelay::carry(std::span<std::byte> scratch) {
  std::size_t after_stop = 0;
  while (after_stop < kMostBytesAfterStop) {
    co_await until_readable();
    const bool was_stopped = is_stopped_;
    const std::optional<std::size_t> count = from_.try_read(scratch);
    if (!count && was_stopped) break;
    if (!count) continue;
    if (*count == 0) break;
    if (was_stopped) after_stop += *count;
    const std::string_view text = lines_.feed({reinterpret_cast<const char*>(scratch.data()), *count});
    co_await pass_on(text);
  }
  const std::string_view rest = lines_.finish();
  co_await pass_on(rest);
}

Task<> OutputRelay::pass_on(std::string_view lines) {
  if (lines.empty()) co_return;
  std::string rewritten;
  if (rewrite_) {
    rewritten = rewrite_(lines);
    lines = rewritten;
  }
  if (!lines.empty()) co_await to_.write(channel_, lines);
}

Task<> OutputRelay::until_readable() {
  if (is_stopped_) co_return;
  CancelScope* around = co_await current_scope();
  CancelScope reading(around);
  reading_ = &reading;
  try {
    Task<> readable = with_scope(reading, from_.until_readable());
    co_await readable;
  } catch (const Error&) {
    reading_ = nullptr;
    if (!is_stopped_) throw;
  }
  reading_ = nullptr;
}

void OutputRelay::stop() noexcept {
  is_stopped_ = true;
  if (reading_ != nullptr) reading_->cancel();
}

}  // namespace cohort
