// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/machine.h>
#include <cohort/net/host/segment.h>

namespace cohort::sim {

/// What one rank does with data that travels in the arrival slots, in which ranks of one host meet.
struct SlotWork {
  bool fits = false;
  std::size_t bytes_in = 0;  ///< copied into the rank's own slot
  LocalStep::Kind kind = LocalStep::Kind::copy;
  std::size_t bytes_out = 0;  ///< copied or combined out of all of them
};

[[nodiscard]] inline SlotWork slot_work(const Barrier&, Rank, Rank) { return {.fits = true}; }
[[nodiscard]] inline SlotWork slot_work(const Broadcast& op, Rank rank, Rank) {
  const std::size_t bytes = op.size_bytes();
  const bool is_root = rank == op.root;
  return {.fits = bytes <= host::kSlotPayloadBytes,
          .bytes_in = is_root ? bytes : 0,
          .bytes_out = is_root ? 0 : bytes};
}
[[nodiscard]] inline SlotWork slot_work(const AllReduce& op, Rank, Rank ranks) {
  const std::size_t bytes = op.size_bytes();
  return {.fits = bytes <= host::kSlotPayloadBytes,
          .bytes_in = bytes,
          .kind = LocalStep::Kind::reduce,
          .bytes_out = bytes * ranks};
}
[[nodiscard]] inline SlotWork slot_work(const AllGather& op, Rank, Rank ranks) {
  const std::size_t bytes = op.size_bytes();
  return {.fits = bytes <= host::kSlotPayloadBytes, .bytes_in = bytes, .bytes_out = bytes * ranks};
}
[[nodiscard]] inline SlotWork slot_work(const ReduceScatter& op, Rank, Rank ranks) {
  const std::size_t bytes = op.size_bytes() * ranks;
  return {.fits = bytes <= host::kSlotPayloadBytes,
          .bytes_in = bytes,
          .kind = LocalStep::Kind::reduce,
          .bytes_out = bytes};
}

}  // namespace cohort::sim
