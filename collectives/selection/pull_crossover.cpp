// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/pull_crossover.h>

#include <cohort/collectives/call/communicator_core.h>
#include <cohort/engine/system/peer_memory.h>
#include <cohort/net/auth/identity.h>

#include <cstring>

namespace cohort {
void PullCrossover::take(const std::vector<PullTimes>& measured) {
  measured_ = measured;
  from_bytes_ = kNever;
  for (auto times = measured.rbegin();
       times != measured.rend() && times->pulled_us * kLeastGain <= times->staged_us; ++times)
    from_bytes_ = times->bytes;
}

/// Tells the others where `own` begins in this process and tries to read the beginning of everybody's: it
/// holds a number that the peer has drawn, so that nobody else's memory is taken for it. False if the kernel
/// does not allow it.
Task<bool> CommunicatorCore::probe_pull(std::span<const std::byte> own) {
  struct Place {
    std::uint64_t token;
    std::uint64_t address;
  };
  Place mine{};
  std::memcpy(&mine.token, own.data(), sizeof mine.token);
  mine.address = reinterpret_cast<std::uintptr_t>(own.data());
  std::vector<Place> places(membership_.size);
  Call call;
  call.op = Operator::all_gather;
  call.type = DataType::int64;
  call.count = sizeof mine / sizeof(std::int64_t);
  call.send = reinterpret_cast<std::byte*>(&mine);
  call.send_bytes = sizeof mine;
  call.recv = reinterpret_cast<std::byte*>(places.data());
  call.recv_bytes = places.size() * sizeof mine;
  co_await run_unnumbered(call);
  bool is_allowed = true;
  for (Rank peer = 0; peer < membership_.size; ++peer) {
    std::uint64_t token = 0;
    const int failure =
        read_peer_memory(membership_.peers[peer].visible_process, reinterpret_cast<std::byte*>(&token),
                         places[peer].address, sizeof token);
    is_allowed = is_allowed && failure == 0 && token == places[peer].token;
  }
  co_return is_allowed;
}

/// One rank that may not pull keeps all from it, and so does one whose options say never.
Task<> CommunicatorCore::measure_pull() {
  if (is_one_process_) co_return;  // everything is mapped
  std::vector<std::byte> send(PullCrossover::kSizes.back());
  const std::uint64_t token = random_incarnation();
  std::memcpy(send.data(), &token, sizeof token);
  const bool is_allowed = co_await probe_pull(send);
  std::array<double, 2> limits = {is_allowed ? 0.0 : 1.0, static_cast<double>(pull_from_bytes_)};
  co_await agree_on_slowest(limits);
  const bool is_possible = limits[0] == 0 && limits[1] < static_cast<double>(PullCrossover::kNever);
  if (is_possible && limits[1] != 0) reach_.pull.set_from(static_cast<std::size_t>(limits[1]));
  if (!is_possible || limits[1] != 0) co_return;

  std::vector<std::byte> recv(send.size() * membership_.size);
  std::vector<PullTimes> measured;
  for (const std::size_t bytes : PullCrossover::kSizes) {
    Call call;
    call.op = Operator::all_gather;
    call.algorithm = AlgorithmId::direct;
    call.count = bytes / sizeof(float);
    call.send = send.data();
    call.send_bytes = bytes;
    call.recv = recv.data();
    call.recv_bytes = bytes * membership_.size;
    std::array<double, 2> times{};
    reach_.pull.set_from(PullCrossover::kNever);
    times[0] = co_await time_calls(call);
    reach_.pull.set_from(0);
    times[1] = co_await time_calls(call);
    co_await agree_on_slowest(times);
    measured.push_back({bytes, times[0], times[1]});
  }
  reach_.pull.take(measured);
}

}  // namespace cohort
