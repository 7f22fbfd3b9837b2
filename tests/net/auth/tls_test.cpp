// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/tls.h>

#include <cohort/engine/when_all.h>
#include <cohort/net/auth/handshake.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

namespace cohort::tls_test {
namespace {

using ::cohort::test::error_of;
using ::cohort::test::fresh_other_address;
using ::cohort::test::fresh_tcp_address;
using ::cohort::test::give_secret;
using ::cohort::test::join_on;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::cohort::test::secret_of;
using ::cohort::test::world_of;
using ::testing::HasSubstr;

/// Two ends and somebody between them, who sees and may change what goes from the client to the server.
struct Ends {
  Socket client;
  Socket server;
  Socket between_client;
  Socket between_server;
};

Task<Ends> connect(Engine& engine) {
  Ends ends;
  const Address any = Address::parse("127.0.0.1:0");
  Listener first(engine, any);
  Listener second(engine, any);
  Socket client = co_await Socket::connect(engine, first.local_address());
  Socket between_client = co_await first.accept();
  Socket between_server = co_await Socket::connect(engine, second.local_address());
  Socket server = co_await second.accept();
  ends.client = std::move(client);
  ends.between_client = std::move(between_client);
  ends.between_server = std::move(between_server);
  ends.server = std::move(server);
  co_return ends;
}

/// What somebody does with the bytes that they pass on; `before`: so many have gone by.
using Change = std::function<void(std::size_t before, std::span<std::byte> bytes)>;

Task<> pass_on(Socket& from, Socket& to, Change change) {
  std::vector<std::byte> block(64 * 1024);
  std::size_t before = 0;
  for (;;) {
    const int got = co_await from.receive_some(block);
    if (got <= 0) break;
    const std::span bytes = std::span(block).first(static_cast<std::size_t>(got));
    if (change) change(before, bytes);
    before += bytes.size();
    const auto failure = co_await error_of(to.send(bytes));
    if (failure) break;
  }
  to.shutdown();
}

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937_64 random(size);
  std::vector<std::byte> bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

/// In pieces of any size, without waiting for room longer than it takes.
Task<> send_in_pieces(Socket& socket, std::span<const std::byte> bytes) {
  std::mt19937_64 random(1);
  while (!bytes.empty()) {
    const std::size_t first = std::min<std::size_t>(random() % 100, bytes.size());
    const std::size_t second = std::min<std::size_t>(random() % 100'000, bytes.size() - first);
    if (first + second == 0) continue;
    std::size_t done = 0;
    while (done < first + second) {
      const std::size_t of_first = std::min(done, first);
      const int sent =
          socket.try_send_some(bytes.subspan(of_first, first - of_first),
                               bytes.subspan(first + (done - of_first), second - (done - of_first)));
      if (sent == -EAGAIN)
        co_await socket.writable();
      else if (sent < 0)
        throw system_error(-sent, "sending");
      else
        done += static_cast<std::size_t>(sent);
    }
    bytes = bytes.subspan(first + second);
  }
}

class Tls : public ::testing::Test {
 protected:
  /// Runs both roles on the ends of one connection, which are told apart from who is between.
  void run(const std::function<Task<>(Socket&)>& client, const std::function<Task<>(Socket&)>& server,
           Change change = {}) {
    auto all = [&]() -> Task<> {
      Ends ends = co_await connect(engine_);
      auto both = [&]() -> Task<> {
        co_await when_all(client(ends.client), server(ends.server));
        ends.client.shutdown();
        ends.server.shutdown();
      };
      co_await when_all(pass_on(ends.between_client, ends.between_server, change),
                        pass_on(ends.between_server, ends.between_client, Change()), both());
    };
    engine_.run(all());
  }

  Engine engine_;
};

TEST_F(Tls, all_bytes_arrive_both_ways_and_nobody_between_sees_them) {
  constexpr std::string_view kWords = "these words are for the other end alone";
  const std::vector<std::byte> there = random_bytes(3'000'000);
  std::vector<std::byte> back = random_bytes(2'000'000);
  std::ranges::copy(std::as_bytes(std::span(kWords)), back.begin());
  std::vector<std::byte> words(kWords.size());
  std::vector<std::byte> seen;
  const Secret key = secret_of(1);
  const auto client = [&](Socket& socket) -> Task<> {
    co_await encrypt_as_client(socket, key);
    co_await socket.send(std::as_bytes(std::span(kWords)));
    std::vector<std::byte> got(back.size());
    auto receive = [&]() -> Task<> {
      const bool came = co_await socket.receive(got);
      EXPECT_TRUE(came);
    };
    co_await when_all(send_in_pieces(socket, there), receive());
    EXPECT_TRUE(got == back);
  };
  const auto server = [&](Socket& socket) -> Task<> {
    co_await encrypt_as_server(socket, key);
    const bool came = co_await socket.receive(words);
    EXPECT_TRUE(came);
    std::vector<std::byte> got(there.size());
    auto receive = [&]() -> Task<> {
      const bool whole = co_await socket.receive(got);
      EXPECT_TRUE(whole);
    };
    co_await when_all(send_in_pieces(socket, back), receive());
    EXPECT_TRUE(got == there);
  };
  run(client, server,
      [&](std::size_t, std::span<std::byte> bytes) { seen.insert(seen.end(), bytes.begin(), bytes.end()); });
  EXPECT_TRUE(std::ranges::equal(words, std::as_bytes(std::span(kWords))));
  EXPECT_GT(seen.size(), there.size());
  EXPECT_TRUE(std::ranges::search(seen, words).empty());
}

TEST_F(Tls, a_byte_that_was_changed_on_the_way_is_told_and_nothing_of_it_taken) {
  constexpr std::size_t kAt = 100'000;
  const std::vector<std::byte> sent = random_bytes(400'000);
  const Secret key = secret_of(1);
  std::size_t got = 0;
  const auto client = [&](Socket& socket) -> Task<> {
    co_await encrypt_as_client(socket, key);
    co_await error_of(socket.send(sent));
  };
  const auto server = [&](Socket& socket) -> Task<> {
    co_await encrypt_as_server(socket, key);
    std::vector<std::byte> received(sent.size());
    for (;;) {
      const int result = co_await socket.receive_some(std::span(received).subspan(got));
      if (result <= 0) {
        EXPECT_EQ(result, -EBADMSG);
        break;
      }
      got += static_cast<std::size_t>(result);
    }
    EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(got), received.begin()));
    std::array<std::byte, 1> more{};
    const auto error = co_await error_of(socket.receive(more));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_THAT(error->what(), HasSubstr("came other than they were sent"));
    socket.shutdown();
  };
  run(client, server, [](std::size_t before, std::span<std::byte> bytes) {
    if (before <= kAt && kAt < before + bytes.size()) bytes[kAt - before] ^= std::byte{1};
  });
  EXPECT_LT(got, kAt);
  EXPECT_GT(got, kAt / 2);
}

TEST_F(Tls, another_key_is_refused_at_both_ends) {
  const auto client = [&](Socket& socket) -> Task<> {
    const Secret key = secret_of(1);
    const auto error = co_await error_of(encrypt_as_client(socket, key));
    EXPECT_EQ(kind_of(error), "LinkFault");
    socket.shutdown();
  };
  const auto server = [&](Socket& socket) -> Task<> {
    const Secret key = secret_of(2);
    const auto error = co_await error_of(encrypt_as_server(socket, key));
    EXPECT_EQ(kind_of(error), "LinkFault");
    socket.shutdown();
  };
  run(client, server);
}

constexpr Service kJoin{.join = true};

Identity identity_of(Rank rank) {
  Identity identity;
  identity.rank = rank;
  identity.world = 4;
  identity.incarnation = rank;
  return identity;
}

/// The keys of both ends of a connection that was accepted.
std::pair<std::optional<Secret>, std::optional<Secret>> keys(Encryption of_client, Encryption of_server) {
  const Secret secret = secret_of(1);
  Identity mine = identity_of(3);
  Identity theirs = identity_of(0);
  mine.encryption = of_client;
  theirs.encryption = of_server;
  const Callee callee{.where = "there", .rank = std::nullopt, .incarnation = std::nullopt};
  ClientHandshake client(secret, mine, callee);
  ServerHandshake server(secret, theirs, kJoin, "here");
  const Step<Challenge> challenge = server.on_hello(client.hello());
  const Step<Proof> proof = client.on_challenge(*challenge.send);
  EXPECT_FALSE(server.on_proof(*proof.send));
  return {client.connection_key(), server.connection_key()};
}

TEST(TlsKeys, a_connection_has_a_key_of_its_own_where_either_end_requires_it) {
  using enum Encryption;
  EXPECT_FALSE(keys(allowed, allowed).first);
  EXPECT_FALSE(keys(forbidden, allowed).second);
  for (const auto& [of_client, of_server] :
       {std::pair{required, allowed}, std::pair{allowed, required}, std::pair{required, required}}) {
    const auto [client, server] = keys(of_client, of_server);
    const auto [other, other_server] = keys(of_client, of_server);
    ASSERT_TRUE(client && server && other && other_server);
    EXPECT_TRUE(std::ranges::equal(client->bytes(), server->bytes()));
    EXPECT_FALSE(std::ranges::equal(client->bytes(), other->bytes()));
  }
}

/// A world of three ranks of three hosts, which rank 0 is apart from by its address, too.
std::vector<JoinOptions> world_of_hosts(const std::string& address) {
  std::vector<JoinOptions> world = world_of(3, address);
  give_secret(world);
  for (JoinOptions& options : world) options.host_id = std::to_string(options.rank);
  return world;
}

TEST(TlsOfJobs, joining_and_control_are_encrypted_where_a_rank_requires_it) {
  Engine engine;
  std::vector<JoinOptions> world = world_of_hosts(fresh_other_address());
  world[1].encryption = Encryption::required;
  const std::vector<Joined> joined = join_on(engine, std::move(world));
  for (const Joined& one : joined) ASSERT_TRUE(one.membership) << one.error->what();
  const auto is_protected = [&](Rank rank, Rank peer) {
    return joined[rank].membership->control[peer].is_protected();
  };
  EXPECT_TRUE(is_protected(0, 1));
  EXPECT_TRUE(is_protected(1, 0));
  EXPECT_FALSE(is_protected(0, 2));
  EXPECT_FALSE(is_protected(1, 2));  // both at one address
}

TEST(TlsOfJobs, nothing_is_encrypted_inside_of_a_host) {
  Engine engine;
  std::vector<JoinOptions> world = world_of_hosts(fresh_tcp_address());
  for (JoinOptions& options : world) options.encryption = Encryption::required;
  const std::vector<Joined> joined = join_on(engine, std::move(world));
  for (const Joined& one : joined) {
    ASSERT_TRUE(one.membership) << one.error->what();
    for (const Socket& socket : one.membership->control) EXPECT_FALSE(socket.is_protected());
  }
}

TEST(TlsOfJobs, a_rank_that_forbids_what_another_requires_is_told) {
  Engine engine;
  std::vector<JoinOptions> world = world_of_hosts(fresh_other_address());
  for (JoinOptions& options : world) options.timeout = std::chrono::seconds(2);
  world[0].encryption = Encryption::required;
  world[2].encryption = Encryption::forbidden;
  const std::vector<Joined> joined = join_on(engine, std::move(world));
  EXPECT_EQ(kind_of(joined[2].error), "Mismatch");
  EXPECT_THAT(joined[2].error->what(), HasSubstr("COHORT_TLS"));
  EXPECT_TRUE(joined[0].error && joined[1].error);
}

}  // namespace
}  // namespace cohort::tls_test
