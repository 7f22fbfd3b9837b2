// SPDX-License-Identifier: Apache-2.0
// error: ElementType|no matching constructor
#include <cohort/cohort.h>

#include <cstddef>
#include <span>

cohort::Task<> use(cohort::Communicator& comm, std::span<std::byte> bytes) {
  const cohort::CallArguments arguments{.in = bytes, .out = bytes};
  co_await comm.call(cohort::operator_of<cohort::AllReduce>, arguments);
}
