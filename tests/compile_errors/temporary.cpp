// SPDX-License-Identifier: Apache-2.0
// error: this buffer would end before the collective does: give it a name first
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) { co_await comm.broadcast(std::vector<float>(8), 0); }
