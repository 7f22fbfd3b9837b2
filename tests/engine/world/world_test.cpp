// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>
#include <cohort/engine/io/socket.h>
#include <cohort/engine/world/world.h>

#include <gtest/gtest.h>

#include <array>

namespace cohort::world::world_test {
namespace {

using Seconds = std::chrono::seconds;

Settings two_hosts(std::uint64_t seed) {
  Settings settings;
  settings.seed = seed;
  settings.host_of = {0, 1};
  settings.tiny_read_percent = 30;
  return settings;
}

using Role = std::function<Task<>(Engine&)>;

struct Outcome {
  bool is_through = false;
  std::string finding;
  std::uint64_t hash = 0;
  TimePoint end{};
  std::array<std::string, 2> errors;
};

/// Each role on an engine of its own process.
Outcome play(const Settings& settings, const Role& first, const Role& second) {
  World world(settings);
  Outcome outcome;
  const auto body = [&](Process process, const Role& role) {
    return [&world, &outcome, &role, process] {
      Engine engine(world.engine_options(process));
      try {
        engine.run(role(engine));
      } catch (const Error& error) {
        if (!world.is_over()) outcome.errors[process] = error.what();
      }
    };
  };
  outcome.is_through = world.run({body(0, first), body(1, second)});
  outcome.finding = world.finding();
  outcome.hash = world.hash();
  outcome.end = world.now();
  return outcome;
}

const Address kPlace = Address::parse("10.0.0.1:7000");
constexpr std::size_t kBytes = 100'000;

std::vector<std::byte> pattern() {
  std::vector<std::byte> bytes(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

Task<> serve_bytes(Engine& engine) {
  Listener listener(engine, kPlace);
  Socket socket = co_await listener.accept();
  const std::vector<std::byte> bytes = pattern();
  co_await socket.send(bytes);
}

Task<> take_bytes(Engine& engine) {
  Socket socket = co_await Socket::connect_until(engine, kPlace, after(engine.now(), Seconds(1)));
  std::vector<std::byte> bytes(kBytes);
  const bool came = co_await socket.receive(bytes);
  EXPECT_TRUE(came);
  EXPECT_EQ(bytes, pattern());
  std::array<std::byte, 1> more{};
  const bool is_more = co_await socket.receive(more);
  EXPECT_FALSE(is_more);
}

TEST(World, carries_bytes_in_order_whatever_the_seed) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Outcome outcome = play(two_hosts(seed), serve_bytes, take_bytes);
    EXPECT_TRUE(outcome.is_through);
    EXPECT_EQ(outcome.finding + outcome.errors[0] + outcome.errors[1], "") << "seed " << seed;
  }
}

TEST(World, repeats_a_seed_to_the_last_event_and_differs_between_seeds) {
  const Outcome once = play(two_hosts(3), serve_bytes, take_bytes);
  const Outcome again = play(two_hosts(3), serve_bytes, take_bytes);
  const Outcome other = play(two_hosts(4), serve_bytes, take_bytes);
  EXPECT_EQ(once.hash, again.hash);
  EXPECT_EQ(once.end, again.end);
  EXPECT_NE(once.hash, other.hash);
}

TEST(World, reports_a_hang_with_who_waits_for_what) {
  const auto listen = [](Engine& engine) -> Task<> {
    Listener listener(engine, kPlace);
    Socket socket = co_await listener.accept();
    std::array<std::byte, 1> byte{};
    co_await socket.receive(byte);
  };
  const auto stay_silent = [](Engine& engine) -> Task<> {
    Socket socket = co_await Socket::connect_until(engine, kPlace, after(engine.now(), Seconds(1)));
    std::array<std::byte, 1> byte{};
    co_await socket.receive(byte);
  };
  const Outcome outcome = play(two_hosts(1), listen, stay_silent);
  EXPECT_TRUE(outcome.is_through);  // resetting the connections let them end
  EXPECT_NE(outcome.finding.find("a hang: nobody can ever go on"), std::string::npos) << outcome.finding;
  EXPECT_NE(outcome.finding.find("rank 0 waits for bytes from rank 1"), std::string::npos) << outcome.finding;
}

TEST(World, reports_what_goes_on_beyond_the_longest_virtual_time) {
  Settings settings = two_hosts(1);
  settings.longest = Seconds(10);
  const auto dawdle = [](Engine& engine) -> Task<> {
    for (int i = 0; i < 100; ++i) co_await engine.sleep_for(Seconds(1));
  };
  const Outcome outcome = play(settings, dawdle, dawdle);
  EXPECT_NE(outcome.finding.find("no end after"), std::string::npos) << outcome.finding;
}

TEST(World, refuses_a_connection_where_nobody_listens) {
  const auto nothing = [](Engine&) -> Task<> { co_return; };
  const auto call = [](Engine& engine) -> Task<> { co_await Socket::connect(engine, kPlace); };
  const Outcome outcome = play(two_hosts(1), nothing, call);
  EXPECT_NE(outcome.errors[1].find("Connection refused"), std::string::npos) << outcome.errors[1];
}

TEST(World, lets_bytes_of_a_lost_link_vanish_without_a_word) {
  Settings settings = two_hosts(1);
  settings.lost = {{.from = 0, .to = 1, .step = 1}};
  const auto serve = [](Engine& engine) -> Task<> {
    Listener listener(engine, kPlace);
    Socket socket = co_await listener.accept();
  };
  const auto wait = [](Engine& engine) -> Task<> {
    Task<Socket> calling = Socket::connect(engine, kPlace);
    Task<Socket> timed = with_deadline(Seconds(5), std::move(calling));
    co_await timed;
  };
  const auto serve_for_a_while = [&](Engine& engine) -> Task<> {
    Task<> serving = with_deadline(Seconds(20), serve(engine));
    co_await serving;
  };
  const Outcome outcome = play(settings, serve_for_a_while, wait);
  EXPECT_NE(outcome.errors[1].find("DeadlineExceeded"), std::string::npos) << outcome.errors[1];
}

TEST(World, ends_the_connections_of_a_process_that_dies) {
  Settings settings = two_hosts(1);
  settings.dead = {{.process = 0, .step = 12}};
  const auto talk = [](Engine& engine) -> Task<> {
    Listener listener(engine, kPlace);
    Socket socket = co_await listener.accept();
    const std::array<std::byte, 1> byte{};
    for (;;) {
      if (!socket.try_send(byte)) break;
      co_await engine.sleep_for(Seconds(1));
    }
  };
  int bytes = 0;
  bool has_ended = false;
  const auto listen = [&](Engine& engine) -> Task<> {
    Socket socket = co_await Socket::connect_until(engine, kPlace, after(engine.now(), Seconds(1)));
    std::array<std::byte, 1> byte{};
    for (;;) {
      const bool came = co_await socket.receive(byte);
      if (!came) break;
      ++bytes;
    }
    has_ended = true;
  };
  const Outcome outcome = play(settings, talk, listen);
  EXPECT_EQ(outcome.finding, "");
  EXPECT_TRUE(has_ended);
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, 12);
}

/// It goes on once more when everything is over, and waits then as it did before.
TEST(World, lets_no_listener_of_a_dead_process_have_something_for_ever) {
  Settings settings = two_hosts(1);
  settings.pause_percent = 0;
  settings.late_percent = 0;
  settings.dead = {{.process = 0, .step = 1}};
  const auto accept = [](Engine& engine) -> Task<> {
    Listener listener(engine, kPlace);
    Task<Socket> accepting = listener.accept();
    Task<Socket> timed = with_deadline(Seconds(10), std::move(accepting));
    Socket socket = co_await timed;
  };
  const auto wait = [](Engine& engine) -> Task<> { co_await engine.sleep_for(Seconds(1)); };
  const Outcome outcome = play(settings, accept, wait);
  EXPECT_TRUE(outcome.is_through);
  EXPECT_EQ(outcome.finding, "");
}

/// Whether a process sees that the other one, which has forked, died: within a minute.
bool sees_death_after_fork(const Settings& settings) {
  const auto talk = [](Engine& engine) -> Task<> {
    Listener listener(engine, kPlace);
    Socket socket = co_await listener.accept();
    const std::array<std::byte, 1> byte{};
    while (socket.try_send(byte)) co_await engine.sleep_for(Seconds(1));
  };
  bool has_ended = false;
  const auto listen = [&](Engine& engine) -> Task<> {
    Socket socket = co_await Socket::connect_until(engine, kPlace, after(engine.now(), Seconds(1)));
    std::array<std::byte, 1> byte{};
    while (!has_ended) {
      Task<bool> reading = socket.receive(byte);
      Task<bool> timed = with_deadline(Seconds(60), std::move(reading));
      const bool came = co_await timed;
      has_ended = !came;
    }
  };
  (void)play(settings, talk, listen);
  return has_ended;
}

TEST(World, lets_a_forked_child_hold_what_nobody_guards) {
  Settings settings = two_hosts(1);
  settings.dead = {{.process = 0, .step = 12}};
  settings.forking = {{.process = 0, .step = 8}};
  EXPECT_TRUE(sees_death_after_fork(settings));
  settings.children_keep_all = true;
  EXPECT_FALSE(sees_death_after_fork(settings));
}

TEST(World, lets_a_link_go_down_at_its_moment) {
  Settings settings = two_hosts(1);
  settings.lost = {{.from = 0, .to = 1, .step = 1, .since = Seconds(5)}};
  int bytes = 0;
  const auto talk = [](Engine& engine) -> Task<> {
    Listener listener(engine, kPlace);
    Socket socket = co_await listener.accept();
    const std::array<std::byte, 1> byte{};
    for (int i = 0; i < 20; ++i) {
      (void)socket.try_send(byte);
      co_await engine.sleep_for(Seconds(1));
    }
  };
  const auto listen = [&](Engine& engine) -> Task<> {
    Socket socket = co_await Socket::connect_until(engine, kPlace, after(engine.now(), Seconds(1)));
    std::array<std::byte, 1> byte{};
    for (;;) {
      Task<bool> reading = socket.receive(byte);
      Task<bool> timed = with_deadline(Seconds(30), std::move(reading));
      const bool came = co_await timed;
      if (!came) break;
      ++bytes;
    }
  };
  const Outcome outcome = play(settings, talk, listen);
  EXPECT_EQ(bytes, 5);
  EXPECT_NE(outcome.errors[1].find("DeadlineExceeded"), std::string::npos) << outcome.errors[1];
}

}  // namespace
}  // namespace cohort::world::world_test
