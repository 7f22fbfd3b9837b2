// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/running_call.h>

#include <cohort/collectives/call/signature.h>

#include <fmt/format.h>

namespace cohort {
namespace {

std::string text_of(const RunningCall::Tensors& tensors) {
  if (!tensors.is_packed) return fmt::format("tensor {}", tensors.first);
  if (tensors.first == tensors.end) return "no tensors";
  return fmt::format("small tensors from {} to {}", tensors.first, tensors.end - 1);
}

}  // namespace

void RunningCall::begin(const Signature& whole) noexcept {
  ++number_;
  whole_ = whole;
  tensors_.reset();
  before_ = running_.sequence;
  is_between_ = true;
}

void RunningCall::begin_measuring() noexcept {
  measured_after_ = whole_ ? *whole_ : running_.signature;
  whole_.reset();
}

std::string RunningCall::what() const {
  if (measured_after_) return "measuring after " + describe(*measured_after_);
  return describe(whole_ ? *whole_ : running_.signature);
}

std::string RunningCall::part() const {
  if (!whole_) return "";
  if (is_before_messages()) return " (before its first message)";
  std::string of = tensors_ ? text_of(*tensors_) : describe(running_.signature);
  if (of == what()) of.clear();  // the first message is signed for all
  return fmt::format(" ({} {}{}{})", is_between_ ? "after message" : "message", message(),
                     of.empty() ? "" : ": ", of);
}

std::string RunningCall::text() const { return fmt::format("{} #{}{}", what(), number_, part()); }

}  // namespace cohort
