// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/collectives/schedules/exec.h>

#include <cstddef>
#include <span>
#include <vector>

namespace cohort {

/// A step down to addresses: what of it no longer depends on ranks or windows.
struct AddressedStep {
  LocalStep::Kind kind{};
  Combine combine;
  std::size_t bytes = 0;
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  Stores stores = Stores::cached;

  /// All of it, on any thread.
  void run() const noexcept;

  /// The lists that its spans are of, kept so that steps allocate nothing.
  struct Lists {
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
  };
  /// `bytes` from `at` on of each of its slices, in these lists.
  [[nodiscard]] AddressedStep part(std::size_t at, std::size_t bytes, Lists& lists) const;
};

/// What the first part of a local schedule comes to on a rank: its steps, with the addresses that their
/// slices had when they were recorded. May be run again for as long as these are the same.
///
/// All at once (run()), as far as peers' data has come (MemoryExec::run_as_it_comes()), or in turns with
/// others on the engine (MemoryExec::combine_in_turns()). Recording anew allocates nothing for as many steps
/// as ever before. Threads: the engine's.
class StepList {
 public:
  struct Step {
    AddressedStep addressed;
    AddressedStep::Lists lists;
    std::vector<PlacedSlice> outputs;
    std::vector<PlacedSlice> inputs;
  };

  void clear() noexcept { count_ = 0; }
  /// A copy of it, without its addresses, which are the caller's to give.
  Step& add(const LocalStep& step);
  [[nodiscard]] std::span<const Step> steps() const noexcept { return {steps_.data(), count_}; }
  void run() const noexcept {
    for (const Step& step : steps()) step.addressed.run();
  }

 private:
  std::size_t count_ = 0;
  std::vector<Step> steps_;
};

}  // namespace cohort
