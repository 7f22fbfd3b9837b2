// SPDX-License-Identifier: Apache-2.0
// error: a collective takes contiguous memory: a vector, array, span or SharedBuffer
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  bool data = true;
  co_await comm.broadcast(data, 0);
}
