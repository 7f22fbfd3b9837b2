// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/handshake.h>

#include <cohort/engine/assert.h>
#include <cohort/net/auth/crypto.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cohort {
namespace {

constexpr std::string_view kServerLabel = "cohort1-s";
constexpr std::string_view kClientLabel = "cohort1-c";
constexpr std::string_view kTrafficLabel = "cohort1-t";

/// One role's key for one connection.
Secret role_key(const Secret& secret, const JobId& job, std::string_view label) {
  std::array<std::byte, Secret::kBytes> bytes;
  crypto::hkdf_sha256(secret.bytes(), job.bytes, std::as_bytes(std::span(label)), bytes);
  Secret key = Secret::from_bytes(bytes);
  crypto::wipe(bytes);
  return key;
}

Mac server_mac(const Secret& secret, const JobId& job, const Hello& hello,
               std::span<const std::byte> challenge) {
  const Secret key = role_key(secret, job, kServerLabel);
  return crypto::hmac_sha256(
      key.bytes(), {std::as_bytes(std::span(kServerLabel)), hello, challenge.first(kGreetingFieldBytes)});
}

Mac client_mac(const Secret& secret, const JobId& job, Verdict verdict, const Hello& hello,
               std::span<const std::byte> challenge) {
  const Secret key = role_key(secret, job, kClientLabel);
  const std::array<std::byte, 1> code{static_cast<std::byte>(verdict)};
  return crypto::hmac_sha256(
      key.bytes(), {std::as_bytes(std::span(kClientLabel)), code, hello, challenge.first(kChallengeBytes)});
}

Secret traffic_key(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  std::array<std::byte, kHelloBytes + kChallengeBytes> both;
  std::ranges::copy(challenge, std::ranges::copy(hello, both.begin()).out);
  std::array<std::byte, Secret::kBytes> bytes;
  crypto::hkdf_sha256(secret.bytes(), crypto::sha256(both), std::as_bytes(std::span(kTrafficLabel)), bytes);
  Secret key = Secret::from_bytes(bytes);
  crypto::wipe(bytes);
  return key;
}

/// "rank 3 at 10.0.0.2:4711 (pid 812)".
std::string name_of(const Identity& peer, std::string_view where) {
  return fmt::format("rank {} at {} (pid {})", peer.rank, where, peer.pid);
}

Refusal refused(RefusalReason reason, std::string text) { return Refusal{reason, true, std::move(text)}; }

/// What two ends that have proven themselves must agree on before one may act for the other.
std::optional<Refusal> find_disagreement(const Identity& mine, const Identity& peer, std::string_view where) {
  const std::string name = name_of(peer, where);
  if (peer.job != mine.job)
    return refused(
        RefusalReason::wrong_job,
        fmt::format("{} is in job {}, this process (rank {}) in job {}: two communicators of different names "
                    "(or COHORT_JOB) use one address; give them different ones, or all ranks the same name",
                    name, to_string(peer.job), mine.rank, to_string(mine.job)));
  if (peer.world != mine.world)
    return refused(
        RefusalReason::world_mismatch,
        fmt::format("{} was started for {} ranks, this process (rank {}) for {}: give all of them the same "
                    "number of ranks, or each of two jobs an address",
                    name, peer.world, mine.rank, mine.world));
  if (peer.rank >= peer.world)
    return refused(RefusalReason::rank_range,
                   fmt::format("{} is outside of its {} ranks, which are numbered from 0 to "
                               "{}: start it with one of these",
                               name, peer.world, std::int64_t{peer.world} - 1));
  if (peer.rank == mine.rank)
    return refused(
        RefusalReason::same_rank,
        peer.incarnation == mine.incarnation
            ? fmt::format("{} is this process itself: the address of another rank leads back here", name)
            : fmt::format("{} has the rank of this process (pid {}): give each process a rank of its own",
                          name, mine.pid));
  const bool forbids = mine.encryption == Encryption::forbidden || peer.encryption == Encryption::forbidden;
  if (forbids && is_encrypted_between(mine, peer))
    return refused(
        RefusalReason::encryption,
        fmt::format("{} {} encryption, this process (rank {}) {} it: give all ranks the same COHORT_TLS",
                    name, peer.encryption == Encryption::required ? "requires" : "forbids", mine.rank,
                    mine.encryption == Encryption::required ? "requires" : "forbids"));
  return std::nullopt;
}

Refusal wrong_purpose(std::string text) { return refused(RefusalReason::wrong_purpose, std::move(text)); }

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  crypto::fill_random(nonce);
  return nonce;
}

ClientHandshake::ClientHandshake(const Secret& secret, const Identity& mine, Callee callee,
                                 const Nonce& nonce)
    : secret_(&secret),
      mine_(mine),
      callee_(std::move(callee)),
      hello_(encode(Greeting{.identity = mine, .nonce = nonce}, MessageKind::hello)) {}

Step<Proof> ClientHandshake::on_challenge(std::span<const std::byte> bytes) {
  COHORT_ASSERT(!is_used_, "a handshake with {} takes one challenge", callee_.where);
  is_used_ = true;
  const auto decoded = decode_greeting(bytes, MessageKind::challenge, callee_.where);
  if (const auto* refusal = std::get_if<Refusal>(&decoded)) return {std::nullopt, *refusal};

  std::ranges::copy(bytes, challenge_.begin());
  const auto& challenge = std::get<Greeting>(decoded);
  if (!crypto::is_equal(challenge.mac, server_mac(*secret_, mine_.job, hello_, bytes))) {
    const Rank rank = callee_.rank.value_or(challenge.identity.rank);
    return {
        encode(ProofFields{.verdict = Verdict::other_secret}),
        Refusal{RefusalReason::bad_mac, false,
                fmt::format(
                    "rank {} at {} uses another secret than this process (rank {}), or another job listens "
                    "there: give all ranks the same secret",
                    rank, callee_.where, mine_.rank)}};
  }

  std::optional<Refusal> refusal = judge(challenge);
  const Verdict verdict = refusal ? Verdict::declines : Verdict::accepts;
  if (!refusal) peer_ = challenge.identity;
  const Mac mac = client_mac(*secret_, mine_.job, verdict, hello_, bytes);
  return {encode(ProofFields{verdict, mac}), std::move(refusal)};
}

std::optional<Refusal> ClientHandshake::judge(const Greeting& challenge) const {
  const Identity& peer = challenge.identity;
  const std::string name = name_of(peer, callee_.where);
  if (std::optional<Refusal> refusal = find_disagreement(mine_, peer, callee_.where)) return refusal;
  if (peer.purpose != mine_.purpose || peer.lane != mine_.lane || peer.group != mine_.group)
    return wrong_purpose(
        fmt::format("{} does not take {} connections of lane {} here, but {} connections of lane {}: "
                    "who listened at that address has ended, and another job listens there; start the job "
                    "again, with another address (COHORT_ADDR)",
                    name, to_string(mine_.purpose), mine_.lane, to_string(peer.purpose), peer.lane));
  if (callee_.rank && *callee_.rank != peer.rank)
    return refused(
        RefusalReason::unexpected_peer,
        fmt::format("{} answered where rank {} was called: the address is no longer that of rank {}", name,
                    *callee_.rank, *callee_.rank));
  if (callee_.incarnation && *callee_.incarnation != peer.incarnation)
    return refused(
        RefusalReason::unexpected_peer,
        fmt::format(
            "{} is another incarnation ({:016x}) than the one that joined ({:016x}): it was restarted", name,
            peer.incarnation, *callee_.incarnation));
  return std::nullopt;
}

const Identity& ClientHandshake::peer() const noexcept {
  COHORT_ASSERT(peer_.has_value(), "{} has not been accepted", callee_.where);
  return *peer_;
}

std::optional<Secret> ClientHandshake::connection_key() const {
  if (!is_encrypted_between(mine_, peer())) return std::nullopt;
  return traffic_key(*secret_, hello_, challenge_);
}

bool Service::takes(Purpose purpose, Lane lane) const noexcept {
  switch (purpose) {
    case Purpose::join: return join && lane < lanes;
    case Purpose::control: return control && lane < lanes;
    case Purpose::data: return data && lane < lanes;
  }
  return false;
}

ServerHandshake::ServerHandshake(const Secret& secret, const Identity& mine, const Service& service,
                                 std::string where, const Nonce& nonce)
    : secret_(&secret), mine_(mine), service_(service), where_(std::move(where)), nonce_(nonce) {}

Step<Challenge> ServerHandshake::on_hello(std::span<const std::byte> bytes) {
  COHORT_ASSERT(state_ == State::before_hello, "a handshake with {} takes one hello", where_);
  state_ = State::refused;
  const auto decoded = decode_greeting(bytes, MessageKind::hello, where_);
  if (const auto* refusal = std::get_if<Refusal>(&decoded)) {
    if (refusal->reason == RefusalReason::version) return {encode_version_notice(), *refusal};
    return {std::nullopt, *refusal};
  }

  std::copy(bytes.begin(), bytes.end(), hello_.begin());
  peer_ = std::get<Greeting>(decoded).identity;
  Greeting greeting{.identity = mine_, .nonce = nonce_};
  if (service_.takes(peer_.purpose, peer_.lane)) {
    greeting.identity.purpose = peer_.purpose;
    greeting.identity.lane = peer_.lane;
    greeting.identity.group = peer_.group;
  }
  challenge_ = encode(greeting, MessageKind::challenge);
  // Keyed by the client's job, not ours: the two ends can then agree that they know one secret and differ in
  // the job.
  greeting.mac = server_mac(*secret_, peer_.job, hello_, challenge_);
  challenge_ = encode(greeting, MessageKind::challenge);
  state_ = State::before_proof;
  return {challenge_, std::nullopt};
}

std::optional<Refusal> ServerHandshake::on_proof(std::span<const std::byte> bytes) {
  COHORT_ASSERT(state_ == State::before_proof, "a handshake with {} takes one proof, after its hello",
                where_);
  state_ = State::refused;
  const auto decoded = decode_proof(bytes, where_);
  if (const auto* refusal = std::get_if<Refusal>(&decoded)) return *refusal;
  if (std::optional<Refusal> refusal = judge(std::get<ProofFields>(decoded))) return refusal;
  state_ = State::accepted;
  return std::nullopt;
}

std::optional<Refusal> ServerHandshake::judge(const ProofFields& proof) const {
  const std::string name = name_of(peer_, where_);
  if (proof.verdict == Verdict::other_secret)
    return Refusal{
        RefusalReason::bad_mac, false,
        fmt::format(
            "a process at {} that calls itself rank {} (pid {}) uses another secret than this process "
            "(rank {}): give all ranks the same secret",
            where_, peer_.rank, peer_.pid, mine_.rank)};
  if (!crypto::is_equal(proof.mac, client_mac(*secret_, peer_.job, proof.verdict, hello_, challenge_)))
    return Refusal{
        RefusalReason::bad_mac, false,
        fmt::format("a process at {} that calls itself rank {} (pid {}) could not prove that it knows the "
                    "secret: it has another one, or its bytes were changed or replayed",
                    where_, peer_.rank, peer_.pid)};
  if (std::optional<Refusal> refusal = find_disagreement(mine_, peer_, where_)) return refusal;
  if (!service_.takes(peer_.purpose, peer_.lane))
    return wrong_purpose(
        fmt::format("{} asks for a {} connection of lane {}, which this listener does not take", name,
                    to_string(peer_.purpose), peer_.lane));
  if (proof.verdict == Verdict::declines)
    return refused(
        RefusalReason::declined,
        fmt::format(
            "{} knows the secret and declines this connection with rank {} (pid {}): its own log says "
            "why",
            name, mine_.rank, mine_.pid));
  return std::nullopt;
}

std::optional<Secret> ServerHandshake::connection_key() const {
  if (!is_encrypted_between(mine_, peer())) return std::nullopt;
  return traffic_key(*secret_, hello_, challenge_);
}

const Identity& ServerHandshake::peer() const noexcept {
  COHORT_ASSERT(state_ == State::accepted, "{} has not been accepted", where_);
  return peer_;
}

}  // namespace cohort
