// SPDX-License-Identifier: Apache-2.0
// error: only trivially copyable values move as bytes, and no pointers
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  std::vector<std::string> names(3);
  co_await comm.broadcast_bytes(names, 0);
}
