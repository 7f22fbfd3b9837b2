// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/soak/job.h>

namespace cohort::soak {

/// Two ranks on two hosts, one communicator, two all_gathers: nothing in it can fail.
inline Job plain_job(std::uint64_t seed) {
  Job job;
  job.seed = seed;
  job.ranks = 2;
  job.world.seed = seed;
  job.world.host_of = {0, 1};
  CommunicatorPlan plan;
  plan.name = "plain";
  plan.address = "10.0.0.1:7000";
  plan.buffer_bytes = std::size_t{64} << 10;
  plan.pull_from_bytes = kNeverPull;
  plan.join_timeout = plan.timeout = std::chrono::seconds(10);
  CallPlan call;
  call.op = operator_of<AllGather>;
  call.count = 1000;
  plan.calls = {call, call};
  job.communicators = {plan};
  return job;
}

}  // namespace cohort::soak
