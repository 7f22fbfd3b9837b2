// SPDX-License-Identifier: Apache-2.0
// error: a stream drops the result: give the call a buffer for it
#include <cohort/cohort.h>

void sum(cohort::Communicator& comm, cohort::Stream& stream) {
  stream.enqueue(comm.all_reduce(1.0, cohort::ReduceOp::sum));
}
