// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/communicator_options.h>

#include <cohort/engine/system/environment.h>

#include <fmt/format.h>

namespace cohort {
namespace {

constexpr unsigned kMostCopyThreads = 64;

}  // namespace

CommunicatorOptions CommunicatorOptions::from_environment() {
  CommunicatorOptions options;
  options.join = JoinOptions::from_environment();
  options.transport = environment::text("COHORT_TRANSPORT").value_or("");
  options.algorithm = environment::text("COHORT_ALGO").value_or("");
  options.buffer_bytes = environment::bytes("COHORT_BUFFSIZE").value_or(0);
  options.heap_bytes = environment::bytes("COHORT_HEAPSIZE").value_or(0);
  if (environment::number("COHORT_CMA", 0, 1) == 0U) options.pull_from_bytes = kNeverPull;
  options.uses_huge_pages = environment::number("COHORT_HUGEPAGES", 0, 1).value_or(1) != 0;
  if (const auto threads = environment::number("COHORT_COPY_THREADS", 0, kMostCopyThreads))
    options.copy_threads = static_cast<unsigned>(*threads);
  options.timeout = environment::duration("COHORT_TIMEOUT").value_or(Duration::zero());
  return options;
}

CommunicatorOptions CommunicatorOptions::for_rank(Rank rank, Rank size) const {
  CommunicatorOptions other;
  other.join.name = join.name;
  other.join.job = join.job;
  other.join.rank = rank;
  other.join.size = size;
  other.join.address = join.address;
  other.join.timeout = join.timeout;
  if (join.secret) other.join.secret = Secret::from_bytes(join.secret->bytes());
  other.join.secret_source = join.secret_source;
  other.join.is_unauthenticated = join.is_unauthenticated;
  other.join.host_id = join.host_id;
  other.transport = transport;
  other.transports = transports;
  other.algorithm = algorithm;
  other.algorithms = algorithms;
  other.buffer_bytes = buffer_bytes;
  other.heap_bytes = heap_bytes;
  other.pull_from_bytes = pull_from_bytes;
  other.uses_huge_pages = uses_huge_pages;
  other.copy_threads = copy_threads;
  other.timeout = timeout;
  other.is_isolated = is_isolated;
  return other;
}

}  // namespace cohort
