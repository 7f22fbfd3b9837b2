// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/session.h>
#include <cohort/net/auth/identity.h>

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace cohort::bindings {

using Member = std::shared_ptr<SharedCommunicator>;

inline CallArguments of(std::span<float> data) {
  CallArguments arguments{.type = DataType::float32};
  arguments.in = std::as_bytes(data);
  arguments.out = std::as_writable_bytes(data);
  return arguments;
}

inline AnyCall sum(std::span<float> data) { return CollectiveCall{operator_of<AllReduce>, of(data)}; }

/// Whether it has become so, by what another thread does: looks without a call of the library's, for a minute
/// at most.
template <class Condition>
[[nodiscard]] bool comes_true(const Condition& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}
[[nodiscard]] inline bool comes_to_fail(SharedCommunicator& comm) {
  return comes_true([&] { return comm.failure().has_value(); });
}

/// Runs it on so many ranks, each a thread with a session of its own.
inline void run_sessions(Rank ranks, const std::function<void(Session&, Member)>& body,
                         const std::string& transport = {}) {
  CommunicatorOptions options;
  options.transport = transport;
  options.is_isolated = true;
  options.join.address = fmt::format("unix:cohort-session-{:016x}", random_incarnation());
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&options, &body, rank, ranks] {
      Session session;
      Member comm = session.join(options.for_rank(rank, ranks));
      body(session, comm);
      comm->close();
      comm.reset();
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cohort::bindings
