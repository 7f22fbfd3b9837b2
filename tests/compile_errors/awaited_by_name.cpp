// SPDX-License-Identifier: Apache-2.0
// error: use of deleted function|overload resolution selected deleted
// g++ adds that it has no await_ready. errors: 2
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  auto barrier = comm.barrier();
  co_await barrier;
}
