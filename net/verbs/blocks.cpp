// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/blocks.h>

#include <cohort/engine/system/memory_map.h>

#include <new>
#include <utility>

namespace cohort::verbs {

Blocks::~Blocks() {
  for (const auto& block : idle_) regions_.forget(block.get());
}

std::byte* Blocks::take() noexcept {
  if (!idle_.empty()) {
    std::byte* const block = idle_.back().release();
    idle_.pop_back();
    return block;
  }
  try {
    idle_.reserve(kMostIdle);
    std::unique_ptr<std::byte, Free> block(
        static_cast<std::byte*>(std::aligned_alloc(memory_map::page_bytes(), kBytes)));
    if (block) regions_.declare({block.get(), kBytes});
    return block.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Blocks::give_back(std::byte* block) noexcept {
  std::unique_ptr<std::byte, Free> returned(block);
  if (idle_.size() < kMostIdle)
    idle_.push_back(std::move(returned));
  else
    regions_.forget(returned.get());
}

}  // namespace cohort::verbs
