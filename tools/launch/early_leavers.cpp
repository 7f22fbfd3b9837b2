// SPDX-License-Identifier: Apache-2.0
// Ranks that end with success while others still wait for them to join: a part of tools/launch/local_job.h.
#include <cohort/engine/error.h>
#include <cohort/engine/io/socket.h>
#include <cohort/tools/launch/local_job.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cohort {
namespace {

constexpr Duration kShortestInterval = std::chrono::seconds(1);
constexpr Duration kLongestInterval = std::chrono::seconds(10);
constexpr Duration kConnectTime = std::chrono::seconds(1);

}  // namespace

Task<> LocalJob::look_for_waiting() {
  try {
    Task<> looking = with_scope(*listening_, look_while_ranks_run());
    co_await looking;
  } catch (const Error&) {
    if (!listening_->is_cancelled()) throw;
  }
}

/// Rank 0 listens at the job's address as long as somebody is missing; a program that does without cohort has
/// nobody there, ever. All of a rank that joined and left hang up within a moment, so that two looks in
/// succession have to find somebody. What a rank started may be the rank: as long as that holds the output
/// open, it has not ended.
Task<> LocalJob::look_while_ranks_run() {
  Duration interval = kShortestInterval;
  std::vector<RankProcess*> found;
  while (running_count_ != 0 && !verdict_) {
    co_await engine_.sleep_for(interval);
    interval = std::min(2 * interval, kLongestInterval);
    const bool is_joining = co_await is_anybody_joining();
    const auto has_ended = [](const RankProcess* rank) {
      return rank->output.is_over() && rank->errors.is_over();
    };
    std::vector<RankProcess*> now;
    if (is_joining) std::ranges::copy_if(left_, std::back_inserter(now), has_ended);
    if (is_joining) interval = kShortestInterval;
    for (RankProcess* const rank : found) {
      if (std::ranges::find(now, rank) == now.end()) continue;
      std::erase(now, rank);
      std::erase(left_, rank);
      tasks_->spawn(say(
          fmt::format("rank {} (process {}{}) ended with status 0, and rank 0 still waits at {} for ranks to "
                      "join: start as many ranks as join, or see why this one does not",
                      rank->rank, rank->process.id(), place(), address_)));
    }
    found = std::move(now);
  }
}

Task<bool> LocalJob::is_anybody_joining() {
  try {
    const bool is_unix = address_.starts_with("unix:");
    const Address address = is_unix ? Address::parse(address_) : Address::parse_numeric(address_);
    Task<Socket> connecting = Socket::connect(engine_, address);
    Task<Socket> timed = with_deadline(kConnectTime, std::move(connecting));
    const Socket socket = co_await timed;
    co_return socket.is_open();
  } catch (const Error&) {
    if (listening_->is_cancelled()) throw;
    co_return false;  // refused, or a name: whose look-up would keep all else waiting
  }
}

}  // namespace cohort
