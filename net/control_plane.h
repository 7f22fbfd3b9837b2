// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/net/link_host.h>
#include <cohort/net/membership.h>

#include <array>
#include <optional>
#include <string_view>

namespace cohort {

/// What ranks tell each other beside the data: of fixed size, so that no length comes from a peer.
struct ControlMessage {
  enum class Type : std::uint8_t {
    hello = 1,  ///< once per connection: configuration, and descriptors of the sender's shared memory
    status,     ///< "I run this collective"; sent when a collective stalls, and as the answer to `query`
    query,      ///< as status, and asks for the receiver's status of the same collective
    revoke,     ///< the communicator is given up: kind, culprit, cause
    goodbye,    ///< the sender leaves in good order after this sequence number
    lost,       ///< the sender's connection to rank `culprit` ended without a goodbye
    alive,      ///< the answer to `lost`: the sender's own connection to rank `culprit` is still there
  };
  static constexpr std::uint32_t kMagic = 0x31637463;  // "ctc1"
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t magic = kMagic;
  Type type = Type::hello;
  std::uint8_t kind = 0;  ///< ErrorKind of a revoke
  std::uint16_t reserved = 0;
  std::uint32_t culprit = kNobody;  ///< of a revoke; whom `lost` and `alive` are about
  std::uint32_t reserved_too = 0;
  std::uint64_t sequence = 0;
  Signature signature;
  std::array<char, 472> text{};

  void set_text(std::string_view value) noexcept;
  /// Unprintable characters replaced; at most the field.
  [[nodiscard]] std::string text_for_people() const;

  [[nodiscard]] static ControlMessage revoke(const Error& cause);
  /// The cause that a revoke carries.
  [[nodiscard]] Error cause() const;
};
static_assert(sizeof(ControlMessage) == 512);

/// The authenticated connections between all ranks, apart from the data: who lives, who left, what went
/// wrong.
///
/// Threads: the engine's. Lifetime: its tasks run in the scope given to start(), which is joined before it
/// ends.
class ControlPlane : Immovable {
 public:
  class Handler {
   public:
    virtual void on_control(Rank from, const ControlMessage& message) noexcept = 0;
    /// The peer's connection ended: after a goodbye with that sequence number, or without one.
    virtual void on_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence) noexcept = 0;

   protected:
    ~Handler() = default;
  };

  ControlPlane(Engine& engine, Membership& membership, Handler& handler)
      : engine_(engine), membership_(membership), handler_(handler) {}

  /// What is said to one peer; the descriptors stay the caller's, and go to peers on this host only.
  struct Hello {
    ControlMessage message;
    std::vector<int> descriptors;
  };

  /// Before start(): sends each peer hello_for(peer) and takes theirs with `taken(peer, message,
  /// descriptors)`. Both are called for each peer and may throw: the first Mismatch, else the first failure,
  /// is thrown when all hellos are through, so that a rank that refuses does not keep the others from seeing
  /// why.
  template <class HelloFor, class Taken>
  Task<> exchange_hellos(HelloFor& hello_for, Taken& taken) {
    std::exception_ptr failure;
    std::exception_ptr mismatch;
    for (Rank peer = 0; peer < membership_.size; ++peer) {
      if (peer == membership_.rank) continue;
      if (!failure) awaited_ = peer;
      try {
        const Hello hello = hello_for(peer);
        co_await send_hello(peer, hello);
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    for (Rank peer = 0; peer < membership_.size; ++peer) {
      if (peer == membership_.rank) continue;
      ControlMessage message;
      std::vector<Descriptor> received;
      if (!failure) awaited_ = peer;
      try {
        co_await receive_hello(peer, message, received);
        taken(peer, message, std::move(received));
      } catch (const Error& error) {
        std::exception_ptr& place = error.kind() == ErrorKind::Mismatch ? mismatch : failure;
        if (!place) place = std::current_exception();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (mismatch) std::rethrow_exception(mismatch);
    if (failure) std::rethrow_exception(failure);
    awaited_.reset();
  }
  /// Who is being waited for; none once all hellos are through.
  [[nodiscard]] std::optional<Rank> awaited() const noexcept { return awaited_; }

  /// Listens to every peer, and watches the processes of those on this host.
  void start(TaskScope& scope);

  /// Never waits: a peer that does not take a short message is treated as lost.
  void send(Rank peer, const ControlMessage& message) noexcept;
  void broadcast(const ControlMessage& message) noexcept;
  /// Ends all connections; the listening tasks end.
  void shutdown() noexcept;

 private:
  [[nodiscard]] Error ended_while_joining(Rank peer, std::string_view how) const;
  Task<> send_hello(Rank peer, const Hello& hello);
  Task<> receive_hello(Rank peer, ControlMessage& message, std::vector<Descriptor>& descriptors);
  Task<> listen(Rank peer);
  Task<> watch_process(Rank peer);
  void depart(Rank peer) noexcept;

  struct Peer {
    bool departed = false;
    bool said_goodbye = false;
    std::uint64_t goodbye_after = 0;
  };

  Engine& engine_;
  Membership& membership_;
  Handler& handler_;
  std::optional<Rank> awaited_;
  std::vector<Peer> peers_ = std::vector<Peer>(membership_.size);
};

}  // namespace cohort
