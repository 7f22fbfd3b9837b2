// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/handshake.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::handshake_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Service kAll{.join = true, .control = true, .data = true, .lanes = 4};

Secret secret_of(int seed) {
  std::array<std::byte, Secret::kBytes> bytes;
  bytes.fill(static_cast<std::byte>(seed));
  return Secret::from_bytes(bytes);
}

Identity identity(Rank rank, std::uint32_t world = 4) {
  return Identity{.job = job_id("world"),
                  .rank = rank,
                  .world = world,
                  .incarnation = 0x1122334455667700u + rank,
                  .pid = 4000 + rank,
                  .purpose = Purpose::join,
                  .lane = 0,
                  .features = 5};
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// What both ends of one connection came to. Without a proof sent, the server has seen the stream end.
struct Outcome {
  std::optional<Refusal> client;
  std::optional<Refusal> server;
  Identity client_sees;
  Identity server_sees;

  [[nodiscard]] bool is_accepted() const { return !client && !server; }
};

/// Two ends and a wire between them that may change each message.
struct Wire {
  Secret client_secret = secret_of(1);
  Secret server_secret = secret_of(1);
  Identity client = identity(3);
  Identity server = identity(0);
  Callee callee{.where = "10.0.0.1:4711", .rank = {}, .incarnation = {}};
  Service service = kAll;
  std::function<void(Hello&)> on_hello = [](Hello&) {};
  std::function<void(Challenge&)> on_challenge = [](Challenge&) {};
  std::function<void(Proof&)> on_proof = [](Proof&) {};

  [[nodiscard]] Outcome run() const {
    ClientHandshake from(client_secret, client, callee);
    ServerHandshake to(server_secret, server, service, "10.0.0.2:39000");
    Outcome outcome;

    Hello hello = from.hello();
    on_hello(hello);
    const Step<Challenge> challenged = to.on_hello(hello);
    outcome.server = challenged.refusal;
    if (!challenged.send) {
      outcome.client = from.on_challenge({}).refusal;
      return outcome;
    }
    Challenge challenge = *challenged.send;
    on_challenge(challenge);
    const Step<Proof> proven = from.on_challenge(challenge);
    outcome.client = proven.refusal;
    if (!proven.refusal) outcome.client_sees = from.peer();
    if (!challenged.is_accepted()) return outcome;

    if (proven.send) {
      Proof proof = *proven.send;
      on_proof(proof);
      outcome.server = to.on_proof(proof);
    } else {
      outcome.server = to.on_proof({});
    }
    if (!outcome.server) outcome.server_sees = to.peer();
    return outcome;
  }
};

template <class Message>
void flip(Message& message, std::size_t bit) {
  message[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
}

void expect_refused(const std::optional<Refusal>& refusal, RefusalReason reason, bool is_authenticated) {
  ASSERT_TRUE(refusal.has_value()) << "accepted instead of " << to_string(reason);
  EXPECT_EQ(to_string(refusal->reason), to_string(reason)) << refusal->text;
  EXPECT_EQ(refusal->is_authenticated, is_authenticated) << refusal->text;
}

TEST(Handshake, both_ends_learn_who_the_other_is) {
  const Wire wire;
  const Outcome outcome = wire.run();
  ASSERT_TRUE(outcome.is_accepted());
  EXPECT_EQ(outcome.client_sees, wire.server);
  EXPECT_EQ(outcome.server_sees, wire.client);
}

TEST(Handshake, one_listener_serves_each_purpose_and_lane_it_takes) {
  for (const Purpose purpose : {Purpose::join, Purpose::control, Purpose::data}) {
    for (Lane lane = 0; lane < kAll.lanes; ++lane) {
      Wire wire;
      wire.client.purpose = purpose;
      wire.client.lane = lane;
      const Outcome outcome = wire.run();
      ASSERT_TRUE(outcome.is_accepted()) << to_string(purpose) << " lane " << lane;
      EXPECT_EQ(outcome.client_sees.purpose, purpose);
      EXPECT_EQ(outcome.server_sees.lane, lane);
    }
  }
}

TEST(Handshake, another_secret_is_told_at_both_ends_and_names_the_rank) {
  Wire wire;
  wire.client_secret = secret_of(2);
  wire.callee.rank = 0;
  const Outcome outcome = wire.run();
  expect_refused(outcome.client, RefusalReason::bad_mac, false);
  EXPECT_THAT(outcome.client->text, HasSubstr("rank 0 at 10.0.0.1:4711 uses another secret"));
  EXPECT_EQ(outcome.client->to_error().kind(), ErrorKind::AuthFailed);
  expect_refused(outcome.server, RefusalReason::bad_mac, false);
  EXPECT_THAT(outcome.server->text, HasSubstr("calls itself rank 3 (pid 4003) uses another secret"));
  EXPECT_EQ(outcome.server->to_error().kind(), ErrorKind::AuthFailed);
}

TEST(Handshake, a_listener_with_another_secret_gets_no_mac_from_the_client) {
  const Secret mine = secret_of(1);
  const Secret other = secret_of(2);
  ClientHandshake client(mine, identity(3), {});
  ServerHandshake rogue(other, identity(0), kAll, "here");
  const Step<Challenge> challenge = rogue.on_hello(client.hello());
  const Step<Proof> proof = client.on_challenge(*challenge.send);
  ASSERT_TRUE(proof.send.has_value());
  EXPECT_TRUE(std::all_of(proof.send->begin() + 16, proof.send->end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Handshake, a_client_that_claims_the_secret_without_it_is_refused) {
  Wire wire;
  wire.client_secret = secret_of(2);
  wire.on_proof = [](Proof& proof) { proof = encode(ProofFields{.verdict = Verdict::accepts}); };
  const Outcome outcome = wire.run();
  expect_refused(outcome.server, RefusalReason::bad_mac, false);
}

TEST(Handshake, a_recorded_session_is_worthless_against_a_fresh_nonce) {
  Hello hello{};
  Proof proof{};
  Wire wire;
  wire.on_hello = [&](Hello& sent) { hello = sent; };
  wire.on_proof = [&](Proof& sent) { proof = sent; };
  ASSERT_TRUE(wire.run().is_accepted());

  ServerHandshake server(wire.server_secret, wire.server, kAll, "an attacker");
  ASSERT_TRUE(server.on_hello(hello).is_accepted());
  const std::optional<Refusal> refusal = server.on_proof(proof);
  expect_refused(refusal, RefusalReason::bad_mac, false);
}

TEST(Handshake, a_recorded_challenge_is_worthless_against_a_fresh_hello) {
  Challenge challenge{};
  Wire wire;
  wire.on_challenge = [&](Challenge& sent) { challenge = sent; };
  ASSERT_TRUE(wire.run().is_accepted());

  ClientHandshake client(wire.client_secret, wire.client, wire.callee);
  const Step<Proof> step = client.on_challenge(challenge);
  expect_refused(step.refusal, RefusalReason::bad_mac, false);
}

TEST(Handshake, own_messages_sent_back_are_refused) {
  const Secret secret = secret_of(1);
  ClientHandshake client(secret, identity(3), {});
  expect_refused(client.on_challenge(client.hello()).refusal, RefusalReason::malformed, false);

  // The server's own MAC as the proof: the other role's label and key.
  ClientHandshake asking(secret, identity(3), {});
  ServerHandshake server(secret, identity(0), kAll, "here");
  const Step<Challenge> challenge = server.on_hello(asking.hello());
  ProofFields reflected;
  std::copy(challenge.send->begin() + kGreetingFieldBytes, challenge.send->end(), reflected.mac.begin());
  expect_refused(server.on_proof(encode(reflected)), RefusalReason::bad_mac, false);

  // The server's challenge as a hello to another handshake of it.
  ServerHandshake again(secret, identity(0), kAll, "here");
  expect_refused(again.on_hello(*challenge.send).refusal, RefusalReason::malformed, false);
}

TEST(Handshake, a_connection_led_back_to_oneself_is_refused_at_both_ends) {
  Wire wire;
  wire.server = wire.client;
  const Outcome outcome = wire.run();
  expect_refused(outcome.client, RefusalReason::same_rank, true);
  expect_refused(outcome.server, RefusalReason::same_rank, true);
  EXPECT_THAT(outcome.client->text, HasSubstr("this process itself"));
}

TEST(Handshake, every_flipped_bit_of_a_hello_is_refused) {
  for (std::size_t bit = 0; bit < 8 * kHelloBytes; ++bit) {
    Wire wire;
    wire.on_hello = [=](Hello& hello) { flip(hello, bit); };
    const Outcome outcome = wire.run();
    EXPECT_TRUE(outcome.client.has_value()) << "bit " << bit;
    EXPECT_TRUE(outcome.server.has_value()) << "bit " << bit;
  }
}

TEST(Handshake, every_flipped_bit_of_a_challenge_is_refused) {
  for (std::size_t bit = 0; bit < 8 * kChallengeBytes; ++bit) {
    Wire wire;
    wire.on_challenge = [=](Challenge& challenge) { flip(challenge, bit); };
    const Outcome outcome = wire.run();
    EXPECT_TRUE(outcome.client.has_value()) << "bit " << bit;
    EXPECT_TRUE(outcome.server.has_value()) << "bit " << bit;
  }
}

TEST(Handshake, every_flipped_bit_of_a_proof_is_refused) {
  for (std::size_t bit = 0; bit < 8 * kProofBytes; ++bit) {
    Wire wire;
    wire.on_proof = [=](Proof& proof) { flip(proof, bit); };
    const Outcome outcome = wire.run();
    ASSERT_TRUE(outcome.server.has_value()) << "bit " << bit;
    EXPECT_FALSE(outcome.server->is_authenticated) << "bit " << bit;
  }
}

TEST(Handshake, a_declining_proof_cannot_be_made_an_accepting_one) {
  Wire wire;
  wire.callee.rank = 2;
  wire.on_proof = [](Proof& proof) { flip(proof, 11 * 8); };
  const Outcome outcome = wire.run();
  expect_refused(outcome.server, RefusalReason::bad_mac, false);
}

TEST(Handshake, streams_that_end_early_are_refused_at_every_length) {
  const Secret secret = secret_of(1);
  for (std::size_t length = 0; length < kHelloBytes; ++length) {
    ClientHandshake client(secret, identity(3), {.where = "10.0.0.1:1", .rank = {}, .incarnation = {}});
    ServerHandshake server(secret, identity(0), kAll, "10.0.0.2:2");
    expect_refused(server.on_hello(std::span(client.hello()).first(length)).refusal, RefusalReason::truncated,
                   false);

    ServerHandshake whole(secret, identity(0), kAll, "10.0.0.2:2");
    const Step<Challenge> challenge = whole.on_hello(client.hello());
    const Step<Proof> step = client.on_challenge(std::span(*challenge.send).first(length));
    expect_refused(step.refusal, RefusalReason::truncated, false);
    EXPECT_FALSE(step.send.has_value());
    if (length < kProofBytes) {
      const Proof proof = encode(ProofFields{});
      expect_refused(whole.on_proof(std::span(proof).first(length)), RefusalReason::truncated, false);
    }
  }
}

TEST(Handshake, other_protocols_are_named) {
  struct Case {
    std::string_view bytes;
    std::string_view name;
  };
  using namespace std::string_view_literals;
  constexpr std::array kCases{
      Case{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP"},
      Case{"OPTIONS * HTTP/1.0\r\n", "HTTP"},
      Case{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP"},
      Case{"HTTP/1.1 400 Bad Request\r\n", "HTTP"},
      Case{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"sv, "TLS"},
      Case{"SSH-2.0-OpenSSH_9.2\r\n", "SSH"},
      Case{"\r\n\r\n", "\\x0d\\x0a"},
      Case{"\0\0\0\0\0\0\0\0\0\0"sv, "\\x00"},
  };
  const Secret secret = secret_of(1);
  for (const Case& known : kCases) {
    const std::vector<std::byte> sent = bytes_of(known.bytes);
    ServerHandshake server(secret, identity(0), kAll, "10.0.0.9:80");
    const Step<Challenge> step = server.on_hello(sent);
    expect_refused(step.refusal, RefusalReason::not_cohort, false);
    EXPECT_FALSE(step.send.has_value());
    EXPECT_THAT(step.refusal->text, AllOf(HasSubstr("10.0.0.9:80"), HasSubstr(std::string(known.name))));
    EXPECT_THAT(step.refusal->text, Not(HasSubstr("\n")));

    ClientHandshake client(secret, identity(3), {.where = "10.0.0.1:80", .rank = {}, .incarnation = {}});
    expect_refused(client.on_challenge(sent).refusal, RefusalReason::not_cohort, false);
  }
}

TEST(Handshake, another_version_is_told_at_both_ends_with_both_numbers) {
  Wire wire;
  wire.on_hello = [](Hello& hello) { hello[8] = std::byte{7}; };
  // The server's version as a client of version 7 would see it.
  Challenge notice{};
  wire.on_challenge = [&](Challenge& challenge) {
    notice = challenge;
    challenge[8] = std::byte{9};
  };
  const Outcome outcome = wire.run();
  expect_refused(outcome.server, RefusalReason::version, false);
  EXPECT_THAT(outcome.server->text, AllOf(HasSubstr("version 7"), HasSubstr("this process version 4")));
  EXPECT_EQ(notice, encode_version_notice());
  expect_refused(outcome.client, RefusalReason::version, false);
  EXPECT_THAT(outcome.client->text, AllOf(HasSubstr("version 9"), HasSubstr("this process version 4")));
  EXPECT_EQ(outcome.client->to_error().kind(), ErrorKind::Mismatch);
}

TEST(Handshake, different_worlds_are_told_at_both_ends_with_both_sizes) {
  Wire wire;
  wire.client = identity(3, 8);
  const Outcome outcome = wire.run();
  expect_refused(outcome.client, RefusalReason::world_mismatch, true);
  EXPECT_THAT(outcome.client->text, AllOf(HasSubstr("rank 0 at 10.0.0.1:4711"),
                                          HasSubstr("started for 4 ranks"), HasSubstr("(rank 3) for 8")));
  EXPECT_EQ(outcome.client->to_error().kind(), ErrorKind::WorldSize);
  expect_refused(outcome.server, RefusalReason::world_mismatch, true);
  EXPECT_THAT(outcome.server->text, AllOf(HasSubstr("rank 3 at 10.0.0.2:39000"),
                                          HasSubstr("started for 8 ranks"), HasSubstr("(rank 0) for 4")));
}

TEST(Handshake, different_jobs_of_one_secret_are_told_at_both_ends_with_both_ids) {
  Wire wire;
  wire.client.job = job_id("other");
  const Outcome outcome = wire.run();
  for (const std::optional<Refusal>& refusal : {outcome.client, outcome.server}) {
    expect_refused(refusal, RefusalReason::wrong_job, true);
    EXPECT_THAT(refusal->text,
                AllOf(HasSubstr(to_string(job_id("other"))), HasSubstr(to_string(job_id("world")))));
  }
}

TEST(Handshake, worlds_and_jobs_are_not_told_apart_for_a_stranger) {
  Wire wire;
  wire.client = identity(3, 8);
  wire.client.job = job_id("other");
  wire.client_secret = secret_of(2);
  const Outcome outcome = wire.run();
  expect_refused(outcome.client, RefusalReason::bad_mac, false);
  expect_refused(outcome.server, RefusalReason::bad_mac, false);
}

TEST(Handshake, a_rank_outside_of_the_world_is_refused_at_the_honest_end) {
  for (const Rank rank : {Rank{4}, Rank{5}, Rank{0xffffffff}}) {
    Wire wire;
    wire.client = identity(rank);
    const Outcome as_client = wire.run();
    expect_refused(as_client.server, RefusalReason::rank_range, true);
    EXPECT_THAT(as_client.server->text, HasSubstr("its 4 ranks, which are numbered from 0 to 3"));

    Wire back;
    back.server = identity(rank);
    const Outcome as_server = back.run();
    expect_refused(as_server.client, RefusalReason::rank_range, true);
    expect_refused(as_server.server, RefusalReason::declined, true);
  }
}

TEST(Handshake, a_second_process_of_the_same_rank_is_told_at_both_ends) {
  Wire wire;
  wire.client = identity(0);
  wire.client.incarnation = 77;
  wire.client.pid = 99;
  const Outcome outcome = wire.run();
  expect_refused(outcome.client, RefusalReason::same_rank, true);
  expect_refused(outcome.server, RefusalReason::same_rank, true);
  EXPECT_THAT(outcome.server->text, AllOf(HasSubstr("(pid 99)"), HasSubstr("this process (pid 4000)")));
  EXPECT_EQ(outcome.server->to_error().kind(), ErrorKind::DuplicateRank);
}

TEST(Handshake, a_purpose_or_lane_that_the_listener_does_not_take_is_refused_at_both_ends) {
  struct Case {
    Purpose purpose;
    Lane lane;
    Service service;
  };
  const std::array cases{
      Case{Purpose::join, 0, {.control = true, .data = true}},
      Case{Purpose::control, 0, {.join = true, .data = true}},
      Case{Purpose::data, 0, {.join = true, .control = true}},
      Case{Purpose::data, 4, kAll},
      Case{Purpose::data, 0xffff, kAll},
  };
  for (const Case& asked : cases) {
    Wire wire;
    wire.server.purpose = asked.purpose == Purpose::join ? Purpose::data : Purpose::join;
    wire.client.purpose = asked.purpose;
    wire.client.lane = asked.lane;
    wire.service = asked.service;
    const Outcome outcome = wire.run();
    expect_refused(outcome.client, RefusalReason::wrong_purpose, true);
    expect_refused(outcome.server, RefusalReason::wrong_purpose, true);
  }
}

TEST(Handshake, a_connection_cannot_be_turned_into_one_of_another_purpose_or_lane) {
  constexpr std::size_t kPurposeAt = 11;
  constexpr std::size_t kLaneAt = 12;
  for (const std::size_t at : {kPurposeAt, kLaneAt}) {
    Wire wire;
    wire.client.purpose = Purpose::control;
    wire.client.lane = 2;
    wire.on_hello = [=](Hello& hello) { hello[at] = std::byte{3}; };
    wire.on_challenge = [=](Challenge& challenge) { challenge[at] = std::byte{2}; };
    const Outcome outcome = wire.run();
    expect_refused(outcome.client, RefusalReason::bad_mac, false);
    expect_refused(outcome.server, RefusalReason::bad_mac, false);
  }
}

TEST(Handshake, only_the_rank_and_incarnation_that_were_called_are_accepted) {
  Wire right;
  right.callee.rank = 0;
  right.callee.incarnation = right.server.incarnation;
  EXPECT_TRUE(right.run().is_accepted());

  Wire other_rank;
  other_rank.callee.rank = 2;
  const Outcome rank = other_rank.run();
  expect_refused(rank.client, RefusalReason::unexpected_peer, true);
  EXPECT_THAT(rank.client->text, AllOf(HasSubstr("rank 0"), HasSubstr("rank 2 was called")));
  expect_refused(rank.server, RefusalReason::declined, true);

  Wire restarted;
  restarted.callee.incarnation = 1;
  const Outcome incarnation = restarted.run();
  expect_refused(incarnation.client, RefusalReason::unexpected_peer, true);
  expect_refused(incarnation.server, RefusalReason::declined, true);
}

TEST(Handshake, who_requires_encryption_and_who_forbids_it_are_told_both) {
  Wire wire;
  wire.client.encryption = Encryption::required;
  wire.server.encryption = Encryption::forbidden;
  const Outcome outcome = wire.run();
  for (const std::optional<Refusal>& refusal : {outcome.client, outcome.server}) {
    expect_refused(refusal, RefusalReason::encryption, true);
    EXPECT_EQ(refusal->to_error().kind(), ErrorKind::Mismatch);
    EXPECT_THAT(refusal->text, AllOf(HasSubstr("requires"), HasSubstr("forbids"), HasSubstr("COHORT_TLS")));
  }
}

TEST(Handshake, what_is_wanted_of_encryption_cannot_be_changed_on_the_way) {
  constexpr std::size_t kEncryptionAt = 60;
  Wire wire;
  wire.client.encryption = Encryption::required;
  wire.on_hello = [](Hello& hello) { hello[kEncryptionAt] = std::byte{0}; };
  const Outcome outcome = wire.run();
  expect_refused(outcome.client, RefusalReason::bad_mac, false);
}

TEST(Handshake, nonces_and_incarnations_differ_each_time) {
  EXPECT_NE(random_nonce(), random_nonce());
  EXPECT_NE(random_incarnation(), random_incarnation());
}

TEST(HandshakeDeathTest, steps_out_of_order_are_bugs) {
  const Secret secret = secret_of(1);
  ServerHandshake server(secret, identity(0), kAll, "here");
  EXPECT_DEATH((void)server.on_proof({}), "after its hello");
  EXPECT_DEATH((void)server.peer(), "has not been accepted");
  ClientHandshake client(secret, identity(3), {});
  EXPECT_DEATH((void)client.peer(), "has not been accepted");
}

}  // namespace
}  // namespace cohort::handshake_test
