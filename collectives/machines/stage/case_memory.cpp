// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/case_memory.h>

#include <memory>

namespace cohort::machine {
namespace {

constexpr std::size_t kChunk = 4096 * 1024;  // that classes are cut from

}  // namespace

/// Gives the chunks back when the thread ends; nothing is left in them then.
void CaseMemory::use_next_chunk() {
  thread_local std::vector<std::unique_ptr<std::byte[]>> chunks;
  if (local.chunks == chunks.size()) chunks.push_back(std::make_unique_for_overwrite<std::byte[]>(kChunk));
  local.fresh = chunks[local.chunks++].get();
  local.end = local.fresh + kChunk;
}

void* CaseMemory::cut(std::size_t index) {
  const std::size_t bytes =
      index < kSmallClasses ? (index + 1) * kStep : kSmall << (index - kSmallClasses + 1);
  if (static_cast<std::size_t>(local.end - local.fresh) < bytes) use_next_chunk();
  return std::exchange(local.fresh, local.fresh + bytes);
}

/// With nothing handed out, the next case begins where this one did: what it asks for in a row lies in a row,
/// not where the last blocks of this one happened to lie.
void CaseMemory::start_anew() noexcept {
  local.free.fill(nullptr);
  local.fresh = local.end = nullptr;
  local.chunks = 0;
}

}  // namespace cohort::machine
