// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/world.h>

#include <limits>

namespace cohort::world {

/// The host of one simulated process: one core for all of them unless each has its own, and the caches of no
/// host in particular.
class WorldPlatform final : public Platform {
 public:
  WorldPlatform(World& world, Process process) : world_(world), process_(process) {}

  std::string host_name() override;
  std::string host_fingerprint() override { return world_.settings().has_one_image ? "image" : host_name(); }
  std::string kernel_id() override {
    return world_.settings().is_one_machine ? "machine" : host_fingerprint();
  }
  bool has_devices() const noexcept override { return false; }
  unsigned available_cores() override { return 1; }
  CoreSet usable_cores() override {
    return CoreSet().set(world_.settings().has_core_each ? process_ % kMostCores : 0);
  }
  std::vector<unsigned> one_of_each_core_first(const CoreSet&) override { return {0}; }
  bool stay_on_core(std::size_t) noexcept override { return false; }
  void keep_core() noexcept override {}
  void leave_core() noexcept override {}
  std::size_t core_cache_bytes() override { return std::size_t{1} << 20; }
  std::size_t last_level_cache_bytes() override { return std::size_t{32} << 20; }
  /// Simulated sockets are none.
  std::size_t make_room_for_descriptors(std::size_t, std::size_t, std::string_view) override {
    return std::numeric_limits<std::size_t>::max();
  }
  void yield_core() noexcept override;
  void hand_core_over() noexcept override { yield_core(); }
  int core() noexcept override {
    return world_.settings().has_core_each ? static_cast<int>(process_ % kMostCores) : 0;
  }
  /// The process is busy for so long, and does not look at its engine.
  void compute(Duration takes);

 private:
  World& world_;
  const Process process_;
};

}  // namespace cohort::world
