// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/identity.h>
#include <cohort/net/auth/messages.h>
#include <cohort/net/auth/refusal.h>
#include <cohort/net/auth/secret.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

/// Both ends of a new connection prove that they know the job's secret, the listening one first:
///
///     connecting                          listening
///     HELLO     who I am, nonce   ----->
///                                 <-----  CHALLENGE  who I am, nonce, MAC_s
///     PROOF     verdict, MAC_c    ----->
///
///     MAC_s = HMAC(K_s, "cohort1-s" | HELLO | CHALLENGE without its MAC)
///     MAC_c = HMAC(K_c, "cohort1-c" | verdict | HELLO | CHALLENGE)
///     K_x   = HKDF(secret, salt = the HELLO's job id, info = the role's label)      all with SHA-256
///
/// Fresh nonces make recordings worthless, the labels stop one's own message from coming back as the answer,
/// and the MACs cover every field of both ends, the other job's id or another world size included: such a
/// mix-up is found after both ends have proven themselves, so both can report it with both values.
///
/// A stranger's listener gets no MAC from us. What is sent later is encrypted where either end requires it
/// (tls.h), by a key of this connection's own:
///
///     K = HKDF(secret, salt = SHA-256(HELLO | CHALLENGE), info = "cohort1-t")
///
/// Otherwise later bytes are as safe as the network is.
///
/// No I/O and no time here: the caller moves the bytes, reads exactly one message at a time into a fixed
/// buffer, and gives each connection a deadline. Threads: each object on one. Errors: Internal if OpenSSL
/// fails.
namespace cohort {

/// From the operating system; the simulator and tests give their own.
[[nodiscard]] Nonce random_nonce();

/// What a connecting process knows about the one it calls.
struct Callee {
  std::string where;                         ///< its address, for texts
  std::optional<Rank> rank;                  ///< must be this one
  std::optional<std::uint64_t> incarnation;  ///< must be this one
};

/// What one message led to. First send `send`, where there is something; then close if there is a refusal.
template <class Message>
struct Step {
  std::optional<Message> send;
  std::optional<Refusal> refusal;

  [[nodiscard]] bool is_accepted() const noexcept { return !refusal.has_value(); }
};

/// The connecting end: send hello(), read kChallengeBytes, give them to on_challenge(), send what it returns.
///
/// The listening end may still refuse after that and then closes; its first message tells that it did not.
/// Lifetime: `secret` outlives it.
class ClientHandshake {
 public:
  ClientHandshake(const Secret& secret, const Identity& mine, Callee callee,
                  const Nonce& nonce = random_nonce());

  [[nodiscard]] const Hello& hello() const noexcept { return hello_; }

  /// Once, with all of the bytes or with those that came before the stream ended.
  [[nodiscard]] Step<Proof> on_challenge(std::span<const std::byte> bytes);

  /// Whom we are connected to. After success.
  [[nodiscard]] const Identity& peer() const noexcept;
  /// What this connection is encrypted with, if it is to be. After success.
  [[nodiscard]] std::optional<Secret> connection_key() const;

 private:
  [[nodiscard]] std::optional<Refusal> judge(const Greeting& challenge) const;

  const Secret* secret_;
  Identity mine_;
  Callee callee_;
  Hello hello_;
  Challenge challenge_{};
  std::optional<Identity> peer_;
  bool is_used_ = false;
};

/// The connections that a listener takes.
struct Service {
  bool join = false;
  bool control = false;
  bool data = false;
  Lane lanes = 1;  ///< lanes from 0 to below this

  [[nodiscard]] bool takes(Purpose purpose, Lane lane) const noexcept;
};

/// The listening end: read kHelloBytes, on_hello(), send what it returns, read kProofBytes, on_proof().
///
/// `mine` speaks for every purpose and lane that `service` takes, and any group; its own purpose and lane are
/// only told to a client that asks for another. Lifetime: `secret` outlives it.
class ServerHandshake {
 public:
  /// `where` is the client's address, for texts.
  ServerHandshake(const Secret& secret, const Identity& mine, const Service& service, std::string where,
                  const Nonce& nonce = random_nonce());

  /// Once, with all of the bytes or with those that came before the stream ended.
  [[nodiscard]] Step<Challenge> on_hello(std::span<const std::byte> bytes);

  /// Once, after on_hello() has accepted. Nothing: the peer has proven itself and agrees about job and world.
  [[nodiscard]] std::optional<Refusal> on_proof(std::span<const std::byte> bytes);

  /// Who is connected, with a rank below mine.world that is not mine. After success.
  [[nodiscard]] const Identity& peer() const noexcept;
  /// As the client's.
  [[nodiscard]] std::optional<Secret> connection_key() const;

 private:
  enum class State : std::uint8_t { before_hello, before_proof, accepted, refused };

  [[nodiscard]] std::optional<Refusal> judge(const ProofFields& proof) const;

  const Secret* secret_;
  Identity mine_;
  Service service_;
  std::string where_;
  Nonce nonce_;
  State state_ = State::before_hello;
  Hello hello_{};
  Challenge challenge_{};
  Identity peer_;
};

}  // namespace cohort
