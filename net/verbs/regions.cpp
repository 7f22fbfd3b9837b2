// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/regions.h>

#include <cohort/engine/assert.h>

#include <cerrno>
#include <iterator>
#include <utility>

namespace cohort::verbs {
namespace {

/// To register memory for one transfer costs some microseconds and something for each page: less than two
/// copies of so much.
constexpr std::size_t kLeastLentOnce = std::size_t{256} << 10;

}  // namespace

Regions::Regions(const Library& library, ibv_pd* domain)
    : library_(library), domain_(domain), is_safe_(library.is_fork_initialized() == IBV_FORK_UNNEEDED) {}

void Regions::declare(std::span<std::byte> memory) {
  COHORT_ASSERT(covering(memory) == nullptr, "{} is declared already", static_cast<void*>(memory.data()));
  declared_[memory.data()] = {.bytes = memory.size()};
}

void Regions::forget(const std::byte* memory) noexcept {
  if (declared_.erase(memory) != 0) has_room_ = true;
}

std::map<const std::byte*, Regions::Declared>::value_type* Regions::covering(
    std::span<const std::byte> memory) noexcept {
  const auto behind = declared_.upper_bound(memory.data());
  if (behind == declared_.begin()) return nullptr;
  auto& [begin, declared] = *std::prev(behind);
  const auto at = static_cast<std::size_t>(memory.data() - begin);
  const bool covers = at < declared.bytes && memory.size() <= declared.bytes - at;
  return covers ? &*std::prev(behind) : nullptr;
}

Regions::Region Regions::of(std::span<const std::byte> memory, Use use) noexcept {
  if (auto* const found = covering(memory); found != nullptr) {
    auto& [begin, declared] = *found;
    if (!declared.region)
      declared.region = registered(begin, declared.bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    return declared.region;
  }
  if (use == Use::fill) return registered(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  return memory.size() < kLeastLentOnce ? nullptr
                                        : registered(memory.data(), memory.size(), IBV_ACCESS_REMOTE_READ);
}

void Regions::withdraw(std::span<const std::byte> memory) noexcept {
  if (auto* const found = covering(memory); found != nullptr) found->second.region.reset();
}

Regions::Region Regions::registered(const std::byte* memory, std::size_t bytes, int access) noexcept {
  if (!is_safe_ || !has_room_) return nullptr;
  const auto register_it = [&] {
    return library_.reg_mr(domain_, const_cast<std::byte*>(memory), bytes, access);
  };
  ibv_mr* made = register_it();
  const bool is_limit = made == nullptr && (errno == ENOMEM || errno == EAGAIN);
  if (is_limit && let_go_idle()) made = register_it();
  if (made == nullptr) {
    has_room_ = !is_limit;
    return nullptr;
  }
  return {made, [this](ibv_mr* region) {
            library_.dereg_mr(region);
            has_room_ = true;
          }};
}

bool Regions::let_go_idle() noexcept {
  bool had_any = false;
  for (auto& [begin, declared] : declared_)
    if (declared.region.use_count() == 1) {
      declared.region.reset();
      had_any = true;
    }
  return had_any;
}

}  // namespace cohort::verbs
