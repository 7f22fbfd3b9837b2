// SPDX-License-Identifier: Apache-2.0
// Both ends of the handshake against hostile bytes, hostile wires and honest ends of any identity.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target handshake_fuzz
//   build/fuzz/bin/handshake_fuzz -max_len=512 -max_total_time=60
#include <cohort/engine/assert.h>
#include <cohort/net/auth/handshake.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort {
namespace {

constexpr Service kService{.join = true, .control = true, .data = true, .lanes = 4};

const Secret& secret() {
  static const Secret known = Secret::from_bytes(std::array<std::byte, Secret::kBytes>{});
  return known;
}

Identity identity(Rank rank) {
  return Identity{
      .job = job_id("fuzz"), .rank = rank, .world = 4, .incarnation = 100 + std::uint64_t{rank}, .pid = 1};
}

Nonce nonce(int seed) {
  Nonce bytes;
  bytes.fill(static_cast<std::byte>(seed));
  return bytes;
}

/// The fuzzer's bytes, handed out piece by piece; zeros when they are spent.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : left_(bytes) {}

  std::span<const std::byte> take(std::size_t most) {
    const auto piece = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(piece.size());
    return piece;
  }
  unsigned byte() {
    const auto piece = take(1);
    return piece.empty() ? 0 : std::to_integer<unsigned>(piece[0]);
  }

  /// True when that changed something.
  template <std::size_t N>
  bool change(std::array<std::byte, N>& message) {
    const auto mask = take(N);
    for (std::size_t i = 0; i < mask.size(); ++i) message[i] ^= mask[i];
    return std::any_of(mask.begin(), mask.end(), [](std::byte byte) { return byte != std::byte{0}; });
  }

 private:
  std::span<const std::byte> left_;
};

/// Nobody without the secret gets in, whatever it says.
void hostile_client(Input input) {
  ServerHandshake server(secret(), identity(0), kService, "fuzz", nonce(2));
  const Step<Challenge> step = server.on_hello(input.take(kHelloBytes));
  if (step.is_accepted())
    COHORT_ASSERT(server.on_proof(input.take(kProofBytes)).has_value(), "accepted a stranger");
}

void hostile_server(Input input) {
  ClientHandshake client(secret(), identity(3), {.where = "fuzz", .rank = 0, .incarnation = {}}, nonce(1));
  const Step<Proof> step = client.on_challenge(input.take(kChallengeBytes));
  COHORT_ASSERT(!step.is_accepted(), "accepted a stranger");
}

struct Ends {
  bool client_accepts = false;
  bool server_accepts = false;
  bool was_changed = false;
};

/// Two honest ends, and a wire that XORs the input into their messages when `is_hostile`.
Ends converse(const Identity& connecting, const Identity& listening, Input& input, bool is_hostile) {
  Ends ends;
  ClientHandshake client(secret(), connecting, {.where = "server", .rank = {}, .incarnation = {}}, nonce(1));
  ServerHandshake server(secret(), listening, kService, "client", nonce(2));
  Hello hello = client.hello();
  if (is_hostile) ends.was_changed |= input.change(hello);
  const Step<Challenge> challenged = server.on_hello(hello);
  if (!challenged.send) return ends;
  Challenge challenge = *challenged.send;
  if (is_hostile) ends.was_changed |= input.change(challenge);
  const Step<Proof> proven = client.on_challenge(challenge);
  ends.client_accepts = proven.is_accepted();
  if (!challenged.is_accepted() || !proven.send) return ends;
  Proof proof = *proven.send;
  if (is_hostile) ends.was_changed |= input.change(proof);
  ends.server_accepts = !server.on_proof(proof).has_value();
  return ends;
}

void hostile_wire(Input input) {
  const Ends ends = converse(identity(3), identity(0), input, true);
  COHORT_ASSERT(ends.server_accepts == !ends.was_changed, "accepts {}, changed {}", ends.server_accepts,
                ends.was_changed);
}

Identity any_identity(Input& input) {
  Identity any = identity(input.byte() % 6);
  any.world = 3 + input.byte() % 3;
  any.purpose = static_cast<Purpose>(1 + input.byte() % 3);
  any.lane = static_cast<Lane>(input.byte() % 6);
  if (input.byte() % 4 == 3) any.job = job_id("another");
  return any;
}

void honest_ends(Input input) {
  const Identity client = any_identity(input);
  const Identity server = any_identity(input);
  const Ends ends = converse(client, server, input, false);
  const bool is_agreed =
      client.job == server.job && client.world == server.world && client.rank != server.rank;
  const bool server_should = is_agreed && client.rank < client.world && server.rank < server.world &&
                             kService.takes(client.purpose, client.lane);
  COHORT_ASSERT(ends.server_accepts == server_should, "accepts {}, should {}", ends.server_accepts,
                server_should);
  COHORT_ASSERT(!ends.server_accepts || ends.client_accepts, "only one end accepts");
}

}  // namespace
}  // namespace cohort

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cohort::Input input(std::as_bytes(std::span(data, size)));
  switch (input.byte() % 4) {
    case 0: cohort::hostile_client(input); break;
    case 1: cohort::hostile_server(input); break;
    case 2: cohort::hostile_wire(input); break;
    default: cohort::honest_ends(input); break;
  }
  return 0;
}
