// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/net/verbs/regions.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace cohort::verbs {

/// Memory that devices read lent bytes into which are then combined: as many blocks as links of this device
/// do that at the same time, in place of one for each link. What nobody uses is kept, registered, up to
/// kMostIdle. Threads: the engine's. Lifetime: within its regions'.
class Blocks : Immovable {
 public:
  /// Pieces that stay in the cache, and are large beside what it costs to ask for one.
  static constexpr std::size_t kBytes = std::size_t{256} << 10;
  static constexpr std::size_t kMostIdle = 8;

  explicit Blocks(Regions& regions) noexcept : regions_(regions) {}
  ~Blocks();

  /// Null: there is no memory.
  [[nodiscard]] std::byte* take() noexcept;
  /// No device writes there any more.
  void give_back(std::byte* block) noexcept;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  Regions& regions_;
  std::vector<std::unique_ptr<std::byte, Free>> idle_;
};

}  // namespace cohort::verbs
