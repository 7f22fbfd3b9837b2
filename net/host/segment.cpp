// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/segment.h>

#include <cohort/engine/system/memory_map.h>
#include <cohort/engine/tuning.h>

namespace cohort::host {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t unit = memory_map::page_bytes()) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Layout::Layout(Rank ranks, std::size_t buffer_bytes, std::size_t heap_bytes, std::size_t lines_bytes,
               std::uint32_t stages_per_link, std::uint32_t payloads_per_peer) noexcept
    : stages_per_link_(stages_per_link),
      payloads_per_peer_(payloads_per_peer),
      buffer_bytes_(round_up(buffer_bytes)),
      heap_bytes_(round_up(heap_bytes)) {
  const std::size_t cells = static_cast<std::size_t>(ranks) * kMostLanes;
  slots_ = round_up(lines_bytes);
  signals_ = slots_ + 2 * tuning::slots::kMostBytes;
  sends_ = signals_ + round_up(cells * sizeof(SignalCell));
  receives_ = sends_ + round_up(cells * sizeof(SendCell));
  stages_ = receives_ + round_up(cells * sizeof(ReceiveCell));
  packets_ = stages_ + cells * stages_per_link_ * tuning::stages::kLinkPiece;
  const std::size_t packets = std::size_t{ranks} * tuning::messages::kCells;
  packets_read_ = packets_ + round_up(packets * sizeof(PacketCell));
  cooperative_copy_ = packets_read_ + round_up(ranks * sizeof(PacketsRead));
  packet_payloads_ = cooperative_copy_ + round_up(ranks * sizeof(PartsCell));
  payload_ring_ = packet_payloads_ + std::size_t{ranks} * payloads_per_peer_ * tuning::messages::kCell;
  ccl_in_ = payload_ring_ + PayloadRing::kMostBytes;
  ccl_out_ = ccl_in_ + buffer_bytes_;
  heap_ = round_up(ccl_out_ + buffer_bytes_, SharedMemory::kHugePageBytes);
}

}  // namespace cohort::host
