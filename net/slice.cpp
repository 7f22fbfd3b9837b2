// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/slice.h>

#include <cohort/engine/assert.h>

namespace cohort {

std::string_view to_string(WindowId window) noexcept {
  switch (window) {
    case WindowId::send: return "send";
    case WindowId::recv: return "recv";
    case WindowId::ccl_in: return "ccl_in";
    case WindowId::ccl_out: return "ccl_out";
    case WindowId::scratch: return "scratch";
    case WindowId::slot: return "slot";
  }
  return "unknown";
}

std::byte* WindowTable::at(const Slice& slice) const noexcept {
  COHORT_ASSERT(contains(slice), "slice {}[{}, +{}) lies outside its window of {} bytes",
                to_string(slice.window), slice.offset, slice.bytes, size_bytes(slice.window));
  return entries_[static_cast<std::size_t>(slice.window)].base + slice.offset;
}

}  // namespace cohort
