// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/joining.h>

#include <cohort/engine/when_all.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>

namespace cohort::test {

std::string fresh_unix_address() {
  static std::atomic<int> next = 0;
  return fmt::format("unix:cohort-test-{}-{}", ::getpid(), next++);
}

std::string fresh_tcp_address() {
  constexpr unsigned kFirstPort = 16000;
  constexpr unsigned kPorts = 16000;
  constexpr unsigned kOfEachProcess = 37;
  static std::atomic<unsigned> next = 0;
  Engine engine;
  for (int tries = 0;; ++tries) {
    const unsigned number = static_cast<unsigned>(::getpid()) * kOfEachProcess + next++;
    const Address address = Address::parse(fmt::format("127.0.0.1:{}", kFirstPort + number % kPorts));
    try {
      const Listener listener(engine, address);
      return address.to_string();
    } catch (const Error&) {
      if (tries == 100) throw;
    }
  }
}

std::string fresh_other_address() {
  const std::string address = fresh_tcp_address();
  return "127.0.0.2" + address.substr(address.find(':'));
}

std::vector<JoinOptions> world_of(Rank size, const std::string& address) {
  std::vector<JoinOptions> world;
  for (Rank rank = 0; rank < size; ++rank) {
    JoinOptions options;
    options.rank = rank;
    options.size = size;
    options.address = address;
    options.timeout = std::chrono::seconds(10);
    world.push_back(std::move(options));
  }
  return world;
}

Secret secret_of(int seed) {
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes.fill(static_cast<std::byte>(seed));
  return Secret::from_bytes(bytes);
}

void give_secret(std::vector<JoinOptions>& world, int seed) {
  for (JoinOptions& options : world) options.secret = secret_of(seed);
}

Task<> join_into(Engine& engine, JoinOptions options, Joined& outcome, std::optional<ControlLinks> links) {
  try {
    Membership membership = co_await join(engine, std::move(options), 0, links);
    outcome.membership = std::move(membership);
  } catch (const Error& error) {
    outcome.error = error;
  }
}

std::vector<Joined> join_on(Engine& engine, std::vector<JoinOptions> world,
                            std::optional<ControlLinks> links) {
  std::vector<Joined> outcomes(world.size());
  auto everybody = [&]() -> Task<> {
    std::vector<Task<>> ranks;
    for (std::size_t i = 0; i < world.size(); ++i)
      ranks.push_back(join_into(engine, std::move(world[i]), outcomes[i], links));
    co_await when_all(ranks);
  };
  engine.run(everybody());
  return outcomes;
}

void join_on_threads(std::vector<JoinOptions> world, const std::function<void(Engine&, Joined&)>& check,
                     std::optional<ControlLinks> links) {
  std::vector<std::thread> threads;
  for (JoinOptions& options : world)
    threads.emplace_back([mine = std::move(options), &check, links]() mutable {
      Engine engine;
      Joined outcome;
      engine.run(join_into(engine, std::move(mine), outcome, links));
      check(engine, outcome);
    });
  for (std::thread& thread : threads) thread.join();
}

Task<> exchange_ranks(Membership& membership) {
  const Rank mine = membership.rank;
  for (Rank peer = 0; peer < membership.size; ++peer)
    if (membership.control[peer].is_open())
      co_await membership.control[peer].send(std::as_bytes(std::span(&mine, 1)));
  for (Rank peer = 0; peer < membership.size; ++peer) {
    if (!membership.control[peer].is_open()) continue;
    Rank theirs = ~Rank{0};
    const bool came =
        co_await membership.control[peer].receive(std::as_writable_bytes(std::span(&theirs, 1)));
    EXPECT_TRUE(came);
    EXPECT_EQ(theirs, peer) << "rank " << mine << " reached another rank than it thinks";
  }
}

}  // namespace cohort::test
