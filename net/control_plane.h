// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/engine/system/process_watch.h>
#include <cohort/net/link_host.h>
#include <cohort/net/membership.h>

#include <array>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace cohort {

/// What ranks tell each other beside the data: of fixed size, so that no length comes from a peer.
struct ControlMessage {
  enum class Type : std::uint8_t {
    hello = 1,  ///< once per connection: configuration, and descriptors of the sender's shared memory
    status,     ///< "I run this collective, and wait"; sent when it stalls
    query,      ///< as status, and asks the receiver for its own, of the same collective or of its last one
    revoke,     ///< the communicator is given up: kind, culprit, cause, the collective that failed
    goodbye,    ///< the sender leaves in good order after this collective
    lost,       ///< the sender's connection to rank `culprit` ended without a goodbye
    alive,      ///< the answer to `lost`: the sender's own connection to rank `culprit` is still there
    invite,     ///< the sender makes a group, which it calls `group`, with the receiver: GroupTable's words
    answer,     ///< to a `query`: "I have come to this collective", whether or not the sender waits
    gives_up,  ///< the sender gives up what it was at and closes its link to the receiver: a `revoke` follows
  };
  static constexpr std::uint32_t kMagic = 0x31637463;  // "ctc1"
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t magic = kMagic;
  Type type = Type::hello;
  std::uint8_t kind = 0;         ///< ErrorKind of a revoke
  std::uint8_t is_of_bytes = 0;  ///< of a revoke: Error::is_of_bytes()
  std::uint8_t reserved = 0;
  std::uint32_t culprit = kNobody;  ///< of a revoke; whom `lost` and `alive` are about
  /// The group that it is about, as the sender numbers it; 0: the communicator that was joined. Ranks are
  /// those of the group.
  std::uint32_t group = 0;
  std::uint64_t sequence = 0;
  Signature signature;
  std::array<char, 472> text{};

  void set_text(std::string_view value) noexcept;
  /// Unprintable characters replaced; at most the field.
  [[nodiscard]] std::string text_for_people() const;

  /// What `teller` says. A cause that is longer than the field is cut between words, and says that this rank
  /// prints all of it.
  [[nodiscard]] static ControlMessage revoke(const Error& cause, Rank teller);
  /// The cause that a revoke carries.
  [[nodiscard]] Error cause() const;
  /// Whether a peer that is not told this waits in vain from then on.
  [[nodiscard]] bool is_last_word() const noexcept { return type == Type::revoke || type == Type::goodbye; }
};
static_assert(sizeof(ControlMessage) == 512);

/// The authenticated connections between all ranks, apart from the data: who lives, who left, what went
/// wrong.
///
/// What this rank itself has not enough for ends the connection to a peer no more than the peer does: it
/// fails a task of the scope that it listens in.
///
/// Threads: the engine's. Lifetime: its tasks run in the scope given to exchange_hellos(), which is joined
/// before it ends.
class ControlPlane : Immovable {
 public:
  class Handler {
   public:
    /// A goodbye is followed by on_departure().
    virtual void on_control(Rank from, const ControlMessage& message) noexcept = 0;
    /// The peer's connection ended: after a goodbye with that sequence number, or without one.
    virtual void on_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence) noexcept = 0;

   protected:
    ~Handler() = default;
  };
  /// Hears what concerns groups. Ranks are those of the communicator that was joined.
  class GroupHandler {
   public:
    /// An invite, or a message with a group's number.
    virtual void on_group_message(Rank from, const ControlMessage& message) noexcept = 0;
    /// That rank says nothing more: its connection or its process has ended, after it has left the
    /// communicator in good order or not.
    virtual void on_end(Rank peer, bool said_goodbye) noexcept = 0;

   protected:
    ~GroupHandler() = default;
  };

  ControlPlane(Engine& engine, Membership& membership, Handler& handler)
      : engine_(engine), membership_(membership), handler_(handler) {}
  /// Before exchange_hellos(); outlives the tasks.
  void set_group_handler(GroupHandler& handler) noexcept { group_handler_ = &handler; }

  /// What is said to one peer; the descriptors stay the caller's, and go to peers on this host only.
  struct Hello {
    ControlMessage message;
    std::vector<int> descriptors;
  };

  using HelloFor = std::function<Hello(Rank peer)>;
  using Taken =
      std::function<void(Rank peer, const ControlMessage& message, std::vector<Descriptor> descriptors)>;

  /// Sends each peer hello_for(peer) and takes theirs with taken(), in the order in which
  /// they come. Both are called for each peer and may throw: the first Mismatch, else the first failure, is
  /// thrown when all hellos are through, so that a rank that refuses does not keep the others from seeing
  /// why.
  ///
  /// Receives while it sends: the descriptors of all ranks that are on their way at a time count against the
  /// limit on open files of each, and become fewer by being received only.
  ///
  /// From both hellos on, listens to the peer in `services`, and watches its process if it is on this host:
  /// it may be through, and have something to say or to ask, while somebody else is waited for here.
  Task<> exchange_hellos(const HelloFor& hello_for, const Taken& taken, TaskScope& services);
  /// Who has not said hello; none once all hellos are through.
  [[nodiscard]] std::optional<Rank> awaited() const noexcept;
  /// Whether hellos have to wait until fewer descriptors are on their way.
  [[nodiscard]] bool waits_for_room() const noexcept { return waits_for_room_; }

  /// For a rank that could not even begin: tells all others why, before its connections close.
  static void refuse(Membership& membership, const Error& cause) noexcept;

  /// Never waits: a peer that does not take a short message is treated as lost, unless it is this rank that
  /// has no room for it. A last word that there is no room for is said by the end of the connection.
  void send(Rank peer, const ControlMessage& message) noexcept;
  /// Whether that rank can still be told anything.
  [[nodiscard]] bool is_reached(Rank peer) const noexcept;
  /// Whether that rank's process is watched and has ended, as the kernel knows now: its number may be another
  /// one's by the next moment.
  [[nodiscard]] bool has_process_ended(Rank peer) const noexcept;
  /// Whether that rank has left the communicator in good order.
  [[nodiscard]] bool said_goodbye(Rank peer) const noexcept { return peers_[peer].said_goodbye; }
  /// Ends all connections; the listening tasks end.
  void shutdown() noexcept;

 private:
  [[nodiscard]] Error ended_while_joining(Rank peer, std::string_view how) const;
  /// What went wrong with hellos.
  struct HelloFailures {
    std::exception_ptr first;
    std::exception_ptr mismatch;
    bool is_first_an_end = false;  ///< of a connection
    void note(std::exception_ptr failure) noexcept;
  };
  Task<> send_hello(Rank peer, const Hello& hello);
  Task<> hear_hello(Rank peer, const Taken& taken, HelloFailures& failures);
  Task<> hear_last_words(Rank peer, HelloFailures& failures);
  Task<> receive_hello(Rank peer, ControlMessage& message, std::vector<Descriptor>& descriptors);
  void listen_if_met(Rank peer);
  Task<> listen(Rank peer);
  Task<> hear(Rank peer);
  Task<> watch_process(Rank peer);
  Task<> fail(Error own_fault);
  Task<> hang_up(Rank peer);
  void take(Rank peer, const ControlMessage& message) noexcept;
  /// The communicator that was joined hears of a departure once.
  void depart(Rank peer) noexcept;
  void end(Rank peer) noexcept;

  struct Peer {
    bool said_hello = false;
    bool is_taken = false;  ///< what it said
    bool is_greeted = false;
    bool has_hung_up = false;  ///< before it was greeted
    bool departed = false;
    bool has_ended = false;
    std::optional<ProcessWatch> process{};  ///< of this host
    bool said_goodbye = false;
    std::uint64_t goodbye_after = 0;
  };

  Engine& engine_;
  Membership& membership_;
  Handler& handler_;
  GroupHandler* group_handler_ = nullptr;
  TaskScope* services_ = nullptr;
  bool waits_for_room_ = false;
  std::vector<Peer> peers_ = std::vector<Peer>(membership_.size);
};

/// One communicator's words on the control plane: those of the one that was joined, or of a group in it.
/// Threads: the engine's. Lifetime: the plane's.
class ControlChannel : Immovable {
 public:
  /// `number`: this rank's of the group, 0: none. `ranks`: by rank of the communicator, the rank on the
  /// plane; outlives this.
  ControlChannel(ControlPlane& plane, std::uint32_t number, Rank own, std::span<const Rank> ranks) noexcept
      : plane_(plane), number_(number), own_(own), ranks_(ranks) {}

  void send(Rank peer, ControlMessage message) noexcept;
  /// To all others.
  void broadcast(ControlMessage message) noexcept;
  /// As ControlPlane's.
  [[nodiscard]] bool has_process_ended(Rank peer) const noexcept {
    return plane_.has_process_ended(ranks_[peer]);
  }

 private:
  ControlPlane& plane_;
  const std::uint32_t number_;
  const Rank own_;
  const std::span<const Rank> ranks_;
};

}  // namespace cohort
