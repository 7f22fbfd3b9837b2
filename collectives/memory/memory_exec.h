// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/resources.h>
#include <cohort/collectives/memory/copy_workers.h>
#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/collectives/schedule/exec.h>
#include <cohort/collectives/schedule/user_windows.h>

namespace cohort {

struct Reduction;

/// The machine that moves real bytes: this rank's memory, its links, and peers' memory where it is mapped.
class MemoryExec final : public Exec {
 public:
  MemoryExec(Engine& engine, const Membership& membership, LinkHost& host, Resources& resources);

  /// Before each collective: how its user windows are reached, the same everywhere, and how much data it
  /// touches.
  void begin(UserWindows user_windows, std::size_t footprint_bytes) noexcept;

  /// Threads that help with large steps.
  [[nodiscard]] CopyWorkers& workers() noexcept { return workers_; }

  [[nodiscard]] std::span<const Rank> ranks_of_host() const noexcept override {
    return resources_.transports().ranks_of_host();
  }
  [[nodiscard]] Link& link(Rank peer, Lane lane) override { return resources_.link(peer, lane); }
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return resources_.buffer_bytes(); }
  [[nodiscard]] bool maps_user_windows() const noexcept override {
    return user_windows_ == UserWindows::mapped;
  }
  [[nodiscard]] bool reads_user_windows() const noexcept override {
    return user_windows_ != UserWindows::staged;
  }
  [[nodiscard]] Task<> pull(Rank peer, Slice to, Slice from) override;
  [[nodiscard]] Reducer reducer(const Combine& combine) const noexcept override;
  void finish_average(const Combine& combine, const Slice& sum) override;
  [[nodiscard]] Task<> phase() override;
  void perform(const LocalStep& step) override;

 private:
  [[nodiscard]] std::byte* address(const PlacedSlice& place) const noexcept;
  /// Of all of these, in a list that is kept: steps allocate nothing.
  template <class Address>
  [[nodiscard]] std::span<const Address> addresses(std::span<const PlacedSlice> places,
                                                   std::vector<Address>& kept) const;
  void perform_copy(const LocalStep& step, Stores stores);
  void perform_reduction(const LocalStep& step, Stores stores);
  void share(const Reduction& whole, std::size_t traffic);
  void share_copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores);

  Engine& engine_;
  const Membership& membership_;
  LinkHost& host_;
  const RunningOperation& running_;
  Resources& resources_;
  const std::span<const WindowTable> windows_of_host_;  ///< by rank; empty where nobody's memory is mapped
  const std::size_t cache_bytes_;
  UserWindows user_windows_ = UserWindows::staged;
  bool is_beyond_cache_ = false;

  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  CopyWorkers workers_;
};

}  // namespace cohort
