// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>

#include <array>
#include <cstddef>

namespace cohort {

/// What choose_algorithm() chose lately where no name was asked for, so that the costs of a dozen algorithms,
/// which take longer than a small call, are not computed for every one. Of one communicator: ranks and model
/// stay as they are.
class ChoiceMemo {
 public:
  /// Null: not known.
  [[nodiscard]] const AnyAlgorithm* find(const Call& call) const noexcept {
    const Entry& entry = entries_[index_of(call)];
    const bool is_it = entry.op == call.op.index() && entry.type == call.type && entry.count == call.count &&
                       entry.announced_bytes == call.announced_bytes && entry.determinism == call.determinism;
    return is_it ? entry.algorithm : nullptr;
  }
  void keep(const Call& call, const AnyAlgorithm& algorithm) noexcept {
    entries_[index_of(call)] = {call.op.index(),      call.type, call.determinism, call.count,
                                call.announced_bytes, &algorithm};
  }

 private:
  struct Entry {
    std::size_t op = 0;
    DataType type{};
    Determinism determinism{};
    std::uint64_t count = 0;
    std::size_t announced_bytes = 0;
    const AnyAlgorithm* algorithm = nullptr;
  };
  /// Enough for the gradients of a model's step, most of which are alike.
  static constexpr std::size_t kEntries = 64;

  [[nodiscard]] static std::size_t index_of(const Call& call) noexcept {
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    return (call.count + call.op.index()) * kSpread >> 58;
  }

  std::array<Entry, kEntries> entries_{};
};

}  // namespace cohort
