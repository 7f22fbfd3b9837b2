// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/memory/pulled.h>

#include <cohort/collectives/schedules/placed.h>
#include <cohort/engine/tuning.h>

#include <algorithm>

namespace cohort {

Task<> combine_pulled(Exec& x, Slice share, Slice result, Combine combine, std::size_t element_bytes) {
  const std::size_t room = std::min(tuning::stages::kPulled, x.ccl_bytes()) / x.size();
  const std::size_t grain = room >= 64 * element_bytes ? 64 * element_bytes : element_bytes;
  const std::size_t chunk = std::max(grain, room / grain * grain);
  for (std::size_t at = 0; at < share.bytes; at += chunk) {
    const std::size_t bytes = std::min(chunk, share.bytes - at);
    const Slice part = share.part(at, bytes);
    Placed inputs(x, part);
    for (const Rank peer : x.peers()) {
      const Slice pulled = x.ccl_in(peer * chunk, bytes);
      co_await x.pull(peer, pulled, part);
      inputs.replace(peer, pulled);
    }
    inputs.bring_home(x.rank());
    const PlacedSlice output[] = {{x.rank(), result.part(at, bytes)}};
    co_await x.reduce(output, inputs.slices(), combine);
  }
}

}  // namespace cohort
