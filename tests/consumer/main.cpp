// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <vector>

cohort::Task<> train(cohort::Communicator& comm) {
  std::vector<float> grad(1 << 20, comm.rank() + 1.0f);
  co_await comm.all_reduce(grad, cohort::ReduceOp::sum);
  fmt::print("rank {} of {}: {}\n", comm.rank(), comm.size(), grad[0]);
}

int main() { return cohort::run(train); }  // joins from the environment, drives the engine, reports errors
