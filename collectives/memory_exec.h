// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/exec.h>
#include <cohort/collectives/resources.h>

namespace cohort {

/// The machine that moves real bytes: this rank's memory, its links, and peers' memory where it is mapped.
class MemoryExec final : public Exec {
 public:
  MemoryExec(Rank rank, Rank size, const RunningOperation& running, Resources& resources);

  /// Before each collective: whether its user windows are mapped everywhere, and how much data it touches.
  void begin(bool maps_user_windows, std::size_t footprint_bytes) noexcept;

  [[nodiscard]] Link& link(Rank peer, Lane lane) override { return resources_.link(peer, lane); }
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return resources_.buffer_bytes(); }
  [[nodiscard]] bool maps_user_windows() const noexcept override { return maps_user_windows_; }
  [[nodiscard]] Reducer reducer(const Combine& combine) const noexcept override;
  void finish_average(const Combine& combine, const Slice& sum) override;
  [[nodiscard]] Task<> phase() override;
  void perform(const LocalStep& step) override;

 private:
  [[nodiscard]] std::byte* address(const PlacedSlice& place) const noexcept;

  const RunningOperation& running_;
  Resources& resources_;
  bool maps_user_windows_ = false;
  bool is_beyond_cache_ = false;

  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

}  // namespace cohort
