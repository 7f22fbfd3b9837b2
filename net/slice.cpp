// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/slice.h>

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

}  // namespace cohort
