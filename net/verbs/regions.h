// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/net/verbs/library.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>

namespace cohort::verbs {

/// Memory that a device reaches: what was declared is registered when it is first used and stays so until it
/// is forgotten; other memory is registered for one transfer, since nobody tells when its owner frees or
/// remaps it.
///
/// Where the limit on locked memory is reached, what nobody uses is given back; where that is not enough,
/// nothing is registered until something was given back. Where a child's memory is not kept apart by the
/// kernel (before Linux 5.12), nothing is registered at all: what shares a page with it would be missing in
/// children.
///
/// Threads: the engine's. Lifetime: ends before the domain and after its regions' users.
class Regions : Immovable {
 public:
  /// Registered as long as somebody has it.
  using Region = std::shared_ptr<const ibv_mr>;
  enum class Use { lend, fill };

  Regions(const Library& library, ibv_pd* domain);

  /// Memory that stays mapped as it is until it is forgotten. It overlaps with none that was declared.
  void declare(std::span<std::byte> memory);
  void forget(const std::byte* memory) noexcept;

  /// A region that covers this memory; null where that cannot be, or costs more than it would gain.
  [[nodiscard]] Region of(std::span<const std::byte> memory, Use use) noexcept;
  /// What covers this memory stays registered no longer than for those who have it now: somebody was told its
  /// key who may still use it.
  void withdraw(std::span<const std::byte> memory) noexcept;
  /// Gives back what nobody uses. False: there was nothing.
  bool let_go_idle() noexcept;

 private:
  struct Declared {
    std::size_t bytes = 0;
    Region region{};
  };

  [[nodiscard]] Region registered(const std::byte* memory, std::size_t bytes, int access) noexcept;
  /// What was declared and covers it; null: nothing.
  [[nodiscard]] std::map<const std::byte*, Declared>::value_type* covering(
      std::span<const std::byte> memory) noexcept;

  const Library& library_;
  ibv_pd* const domain_;
  const bool is_safe_;
  bool has_room_ = true;
  std::map<const std::byte*, Declared> declared_;
};

}  // namespace cohort::verbs
