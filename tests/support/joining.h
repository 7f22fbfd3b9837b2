// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/net/join/join.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cohort::test {

/// A Unix address that nothing else of this machine uses.
[[nodiscard]] std::string fresh_unix_address();
/// "127.0.0.1:PORT" with a port that was free just now, and is none of those that the kernel hands out to
/// whoever asks for any.
[[nodiscard]] std::string fresh_tcp_address();

/// The same with another address of this machine than the one that its own connections come from, so that
/// they are taken for those of another host.
[[nodiscard]] std::string fresh_other_address();

/// The options of all ranks of a world that meets there; ten seconds to join.
[[nodiscard]] std::vector<JoinOptions> world_of(Rank size, const std::string& address);
/// The same secret for all of them, told apart by `seed`.
void give_secret(std::vector<JoinOptions>& world, int seed = 1);
[[nodiscard]] Secret secret_of(int seed);

/// What became of one rank.
struct Joined {
  std::optional<Membership> membership;
  std::optional<Error> error;
};

/// `links`: as join()'s.
Task<> join_into(Engine& engine, JoinOptions options, Joined& outcome,
                 std::optional<ControlLinks> links = std::nullopt);

/// All of them as coroutines on one engine, which was made for that.
[[nodiscard]] std::vector<Joined> join_on(Engine& engine, std::vector<JoinOptions> world,
                                          std::optional<ControlLinks> links = std::nullopt);

/// Each on a thread and an engine of its own; `check` runs there, with whatever came of it.
void join_on_threads(std::vector<JoinOptions> world, const std::function<void(Engine&, Joined&)>& check,
                     std::optional<ControlLinks> links = std::nullopt);

/// Sends the own rank over every control connection that there is, and expects the peers' ones: all stand,
/// none is crossed.
Task<> exchange_ranks(Membership& membership);

}  // namespace cohort::test
