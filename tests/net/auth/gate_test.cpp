// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/gate.h>

#include <cohort/engine/system/descriptor_limit.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/join/join.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/forked_part.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_engine.h>

namespace cohort::gate_test {
namespace {

using ::cohort::test::fresh_tcp_address;
using ::cohort::test::fresh_unix_address;
using ::cohort::test::give_secret;
using ::cohort::test::join_into;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::cohort::test::open_descriptors;
using ::cohort::test::secret_of;
using ::cohort::test::world_of;

/// As soon as somebody listens there.
Task<Socket> connect_when_open(Engine& engine, const std::string& address) {
  const TimePoint patience = after(engine.now(), std::chrono::seconds(10));
  co_return co_await Socket::connect_until(engine, Address::parse(address), patience);
}

/// A world of three at that address, in which rank 2 comes only when the strangers are there.
template <class Strangers>
void expect_join_beside(const std::string& address, std::vector<Socket>& held, Strangers& strangers) {
  Engine engine;
  const std::size_t before = open_descriptors();
  {
    std::vector<JoinOptions> world = world_of(3, address);
    give_secret(world);
    std::vector<Joined> joined(3);
    auto rank_2 = [&]() -> Task<> {
      co_await strangers(engine);
      co_await join_into(engine, std::move(world[2]), joined[2]);
    };
    auto everybody = [&]() -> Task<> {
      co_await when_all(join_into(engine, std::move(world[0]), joined[0]),
                        join_into(engine, std::move(world[1]), joined[1]), rank_2());
    };
    engine.run(everybody());
    for (const Joined& one : joined) EXPECT_TRUE(one.membership) << kind_of(one.error);
    held.clear();
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Gate, bytes_of_other_protocols_are_turned_away_and_disturb_nobody) {
  constexpr std::array<std::string_view, 6> kBytes = {
      "GET / HTTP/1.0\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
      "SSH-2.0-x\r\n",
      "x",
      "\x89"
      "COHORT\n",
      "a much longer piece of text that is longer than all messages of the handshake together, so that a "
      "reader "
      "that believes in lengths would read on and on and on; a much longer piece of text that is longer than "
      "all "
      "messages of the handshake together, so that a reader that believes in lengths would read on"};
  for (const std::string& address : {fresh_unix_address(), fresh_tcp_address()}) {
    std::vector<Socket> held;
    auto strangers = [&](Engine& engine) -> Task<> {
      for (const std::string_view bytes : kBytes) {
        Socket socket = co_await connect_when_open(engine, address);
        co_await socket.send(std::as_bytes(std::span(bytes)));
        held.push_back(std::move(socket));
      }
      std::array<std::byte, 1> byte{};
      const int ended = co_await held[0].receive_some(byte);
      EXPECT_LE(ended, 0) << "what cannot become one of our messages is closed at once";
    };
    expect_join_beside(address, held, strangers);
  }
}

TEST(Gate, more_idle_connections_than_places_keep_nobody_out) {
  constexpr std::size_t kPlaces = Gate::kPlacesBeside + 3;  // the world's size
  for (const std::string& address : {fresh_unix_address(), fresh_tcp_address()}) {
    std::vector<Socket> held;
    auto strangers = [&](Engine& engine) -> Task<> {
      const std::size_t at_first = open_descriptors();
      for (std::size_t i = 0; i < 3 * kPlaces; ++i) {
        Socket socket = co_await connect_when_open(engine, address);
        held.push_back(std::move(socket));
      }
      // The last one that has to give way does so when the last of all was taken in.
      std::array<std::byte, 1> byte{};
      const int ended = co_await held[held.size() - 1 - kPlaces].receive_some(byte);
      EXPECT_LE(ended, 0);
      constexpr std::size_t kSlack =
          16;  // accepted and not looked at yet, and what ranks 0 and 1 have opened
      EXPECT_LE(open_descriptors() - at_first, held.size() + kPlaces + kSlack)
          << "both ends are in this process";
    };
    expect_join_beside(address, held, strangers);
  }
}

TEST(Gate, connections_that_end_at_once_keep_nobody_out) {
  for (const std::string& address : {fresh_unix_address(), fresh_tcp_address()}) {
    std::vector<Socket> held;
    auto strangers = [&](Engine& engine) -> Task<> {
      for (int i = 0; i < 200; ++i) {
        const Socket socket = co_await connect_when_open(engine, address);
      }
    };
    expect_join_beside(address, held, strangers);
  }
}

/// A listener with a gate, and what came through it.
class Door final : public Gate::Handler {
 public:
  Door(Engine& engine, const std::string& address, Rank world = 1)
      : listener_(engine, Address::parse(address)),
        gate_(listener_, secret_, rank_0_of(world), kAll, *this) {}

  Task<> serve() { co_await gate_.serve(); }

  Task<> welcome(Visitor visitor) override {
    visitors.push_back(std::move(visitor));
    co_return;
  }
  void on_refusal(const Refusal& refusal, const std::optional<Identity>&) noexcept override {
    refusals.push_back(refusal.text);
  }

  std::vector<Visitor> visitors;
  std::vector<std::string> refusals;

 private:
  static Identity rank_0_of(Rank world) {
    Identity identity;
    identity.world = world;
    return identity;
  }

  static constexpr Service kAll{.join = true, .control = true, .data = true};
  Secret secret_ = secret_of(1);
  Listener listener_;
  Gate gate_;
};

Identity rank_1() {
  Identity identity;
  identity.rank = 1;
  identity.incarnation = 17;
  return identity;
}

TEST(Gate, the_client_learns_whether_it_was_really_taken) {
  Engine engine;
  const std::string address = fresh_unix_address();
  auto scene = [&]() -> Task<> {
    Door door(engine, address);
    TaskScope scope;
    scope.spawn(door.serve());
    Socket socket = co_await Socket::connect(engine, Address::parse(address));
    const Secret secret = secret_of(1);
    Identity identity = rank_1();
    identity.world = 2;  // the door's world has one rank
    const Callee callee{address, Rank{0}, std::nullopt};
    const auto refused = co_await test::error_of(authenticate_as_client(socket, secret, identity, callee));
    EXPECT_EQ(kind_of(refused), "WorldSize");
    while (door.refusals.empty()) co_await engine.sleep_for(Duration::zero());
    EXPECT_EQ(door.visitors.size(), 0U);
    EXPECT_EQ(door.refusals.size(), 1U);
    scope.cancel();
    co_await scope.join();
  };
  engine.run(scene());
}

/// Rank 1 of such a world calls that often at once: what became of it.
struct Calls {
  std::size_t believed = 0;
  std::size_t welcomed = 0;
  std::size_t refused = 0;
};

/// One after the other, and each takes so long to prove itself that many do so at a time.
Calls call_at_once(std::size_t callers, Rank world, Duration thinking) {
  test::WorldEngine engine(50);
  const std::string address = "unix:door";
  const Secret secret = secret_of(1);
  Identity identity = rank_1();
  identity.world = world;
  Calls calls;
  auto prove = [&](Socket& socket) -> Task<bool> {
    ClientHandshake handshake(secret, identity, Callee{address, Rank{0}, std::nullopt});
    co_await socket.send(handshake.hello());
    Challenge challenge{};
    co_await socket.receive(challenge);
    const Step<Proof> step = handshake.on_challenge(challenge);
    co_await engine.sleep_for(thinking);
    if (step.send) co_await socket.send(*step.send);
    std::array<std::byte, 1> verdict{};
    co_return co_await socket.receive(verdict);
  };
  auto call = [&](std::size_t index) -> Task<> {
    co_await engine.sleep_for(index * std::chrono::microseconds(1));
    Socket socket = co_await Socket::connect(engine, Address::parse(address));
    try {
      const bool is_taken = co_await prove(socket);
      calls.believed += is_taken ? 1 : 0;
    } catch (const Error&) {
      co_return;  // it had to give way
    }
  };
  auto scene = [&]() -> Task<> {
    Door door(engine, address, world);
    TaskScope scope;
    scope.spawn(door.serve());
    std::vector<Task<>> all;
    for (std::size_t i = 0; i < callers; ++i) all.push_back(call(i));
    co_await when_all(all);
    scope.cancel();
    co_await scope.join();
    calls.welcomed = door.visitors.size();
    calls.refused = door.refusals.size();
  };
  engine.run(scene());
  return calls;
}

TEST(Gate, whoever_believes_that_it_was_taken_is_in) {
  std::size_t refused = 0;
  for (int thinking = 20; thinking <= 120;
       thinking += 2) {  // the oldest gives way at every step of its proof
    const Calls calls = call_at_once(300, 2, std::chrono::microseconds(thinking));
    EXPECT_GT(calls.believed, 0U);
    EXPECT_EQ(calls.welcomed, calls.believed) << thinking << " us";
    refused += calls.refused;
  }
  EXPECT_GT(refused, 0U) << "more than there are places for";
}

TEST(Gate, places_of_strangers_are_asked_for_among_the_descriptors) {
  test::ForkedPart rank_0("rank 0", [] {
    constexpr Rank kWorld = 3;
    const rlimit few{40, 1024};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    Engine engine;
    JoinOptions options = std::move(world_of(kWorld, fresh_unix_address())[0]);
    options.timeout = std::chrono::milliseconds(1);
    Joined joined;
    engine.run(join_into(engine, std::move(options), joined));
    EXPECT_EQ(kind_of(joined.error), "MissingRanks");
    EXPECT_GE(descriptor_limit::current(), 2 * kWorld + Gate::kPlacesBeside + kWorld);
  });
  rank_0.join();
}

TEST(Gate, fewer_places_are_left_to_strangers_where_there_are_fewer_descriptors) {
  class Nobody final : public Gate::Handler {
    Task<> welcome(Visitor) override { co_return; }
  } nobody;
  Listener listener;
  const Secret secret = secret_of(1);
  Identity identity;
  identity.world = 5;
  Gate gate(listener, secret, identity, Service{.join = true}, nobody);
  EXPECT_EQ(gate.most_pending(), 5 + Gate::kPlacesBeside);
  gate.limit_places_beside(20);
  EXPECT_EQ(gate.most_pending(), 25U);
  gate.limit_places_beside(1000);
  EXPECT_EQ(gate.most_pending(), 25U) << "never more again";
  gate.limit_places_beside(0);
  EXPECT_EQ(gate.most_pending(), 5 + Gate::kLeastBeside);
}

TEST(Gate, ranks_that_all_come_at_once_do_not_drive_each_other_away) {
  const Calls calls = call_at_once(299, 300, std::chrono::microseconds(200));
  EXPECT_EQ(calls.refused, 0U);
  EXPECT_EQ(calls.believed, 299U);
  EXPECT_EQ(calls.welcomed, 299U);
}

TEST(Gate, a_listener_that_ends_after_the_proof_has_not_taken_the_connection) {
  Engine engine;
  const std::string address = fresh_unix_address();
  const Secret secret = secret_of(1);
  auto listener_dies = [&](Listener& listener) -> Task<> {
    Socket socket = co_await listener.accept();
    Identity rank_0;
    rank_0.world = 2;
    ServerHandshake handshake(secret, rank_0, Service{.join = true}, address);
    Hello hello{};
    co_await socket.receive(hello);
    const Step<Challenge> step = handshake.on_hello(hello);
    co_await socket.send(*step.send);
    Proof proof{};
    co_await socket.receive(proof);
    EXPECT_FALSE(handshake.on_proof(proof));
  };
  auto client = [&]() -> Task<> {
    Socket socket = co_await Socket::connect(engine, Address::parse(address));
    Identity identity = rank_1();
    identity.world = 2;
    const Callee callee{address, Rank{0}, std::nullopt};
    const auto error = co_await test::error_of(authenticate_as_client(socket, secret, identity, callee));
    EXPECT_EQ(kind_of(error), "LinkFault");
  };
  auto scene = [&]() -> Task<> {
    Listener listener(engine, Address::parse(address));
    co_await when_all(listener_dies(listener), client());
  };
  engine.run(scene());
}

TEST(Gate, a_listener_that_says_nothing_is_a_fault_worth_another_attempt) {
  Engine engine;
  const std::string address = fresh_unix_address();
  auto scene = [&]() -> Task<> {
    Listener listener(engine, Address::parse(address));
    Socket socket = co_await Socket::connect(engine, Address::parse(address));
    Socket other = co_await listener.accept();
    other = Socket();
    const Secret secret = secret_of(1);
    const Callee callee{address, Rank{0}, std::nullopt};
    const auto error = co_await test::error_of(authenticate_as_client(socket, secret, rank_1(), callee));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_EQ(error->culprit(), Rank{0});
  };
  engine.run(scene());
}

/// Connects as user 65534. Zero: the connection was closed without a word.
int knock_as_another_user(const std::string& address) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  const std::string name = address.substr(5);
  name.copy(un.sun_path + 1, sizeof un.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::setuid(65534) != 0) return 2;
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&un), size) != 0) return 3;
  std::array<char, 64> bytes{};
  ::send(descriptor, bytes.data(), 16, MSG_NOSIGNAL);  // fails if we are closed already
  return ::recv(descriptor, bytes.data(), bytes.size(), 0) > 0 ? 1 : 0;
}

TEST(Gate, another_user_of_this_host_is_turned_away_before_it_may_say_anything) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string address = fresh_unix_address();
  int go[2] = {-1, -1};
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::_exit(::read(go[0], &byte, 1) == 1 ? knock_as_another_user(address) : 4);
  }
  Engine engine;
  auto scene = [&]() -> Task<> {
    Door door(engine, address);
    TaskScope scope;
    scope.spawn(door.serve());
    EXPECT_EQ(::write(go[1], "x", 1), 1);
    while (door.refusals.empty()) co_await engine.sleep_for(std::chrono::milliseconds(1));
    EXPECT_NE(door.refusals[0].find("user 65534"), std::string::npos) << door.refusals[0];
    scope.cancel();
    co_await scope.join();
  };
  engine.run(scene());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it was told something, or could not connect";
  ::close(go[0]);
  ::close(go[1]);
}

}  // namespace
}  // namespace cohort::gate_test
