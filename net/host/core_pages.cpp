// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/core_pages.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/memory_map.h>

#include <fmt/format.h>

#include <utility>

namespace cohort::host {
namespace {

CoreWord& word_in(const SharedMemory& page) noexcept { return *reinterpret_cast<CoreWord*>(page.data()); }

}  // namespace

bool CorePages::may_share_core(Rank peer) const {
  return membership_.shares_host(peer) && !membership_.shares_engine(peer) &&
         membership_.engines_per_core() <= 1;
}

void CorePages::make_own() {
  if (std::exchange(is_made_, true)) return;
  try {
    own_ = SharedMemory::create(memory_map::page_bytes());
    own_.commit(0, memory_map::page_bytes());
    group_.emplace(engine_.core_peers().groups(), word_in(own_), std::vector<const CoreWord*>());
  } catch (const Error& error) {
    log(LogLevel::debug, "no page to say in where this rank runs: {}", error.message());
    own_ = SharedMemory();
  }
}

std::vector<int> CorePages::descriptors_for(Rank peer) {
  if (!may_share_core(peer)) return {};
  make_own();
  if (!group_) return {};
  return {own_.descriptor()};
}

void CorePages::adopt(Rank peer, std::vector<Descriptor> descriptors) {
  if (descriptors.empty()) return;
  if (descriptors.size() > 1)
    throw Error(ErrorKind::ProtocolError,
                fmt::format("rank {} passed {} descriptors to say where it runs, expected one", peer,
                            descriptors.size()))
        .with_culprit(peer);
  if (!may_share_core(peer)) return;
  make_own();
  if (!group_) return;
  try {
    peers_.push_back(SharedMemory::map(std::move(descriptors.front()), memory_map::page_bytes()));
    group_->add(word_in(peers_.back()));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::ProtocolError) throw;
    log(LogLevel::debug, "no page to read where rank {} runs: {}", peer, error.message());
  }
}

}  // namespace cohort::host
