// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/health.h>
#include <cohort/collectives/job/wording.h>
#include <cohort/collectives/p2p/message_request.h>
#include <cohort/net/packet.h>
#include <cohort/net/peer_transports.h>
#include <cohort/notify/notify.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

namespace host {
class Touch;
}

/// send() and recv() of one communicator: finds for each message that comes the recv() that wants it.
///
/// Messages between two ranks are matched by tag, in the order of their sends. Small ones travel at once, as
/// long as the receiver has not too much of this rank's that nobody wanted so far; the others are offered,
/// and all whose sender waits for its receiver. A rank's messages to itself take the same ways.
///
/// What comes is always read, so any batch of sends and receives gets on, in whatever order they are awaited;
/// of what nobody wants yet, the receiver keeps at most 1 MiB of each sender, and what describes the rest. A
/// send is over when the buffer may be reused: at once, or when the receiver has it.
///
/// Threads: the engine's. Lifetime: no message is under way when it ends (asserted); services are joined.
class Matching final : public PacketHandler, private host::Watcher {
 public:
  struct Use {
    Engine& engine;
    const Membership& membership;
    PeerTransports& transports;
    Health& health;
    TaskScope& services;
    Duration timeout;
    Wording wording;
    /// From which size on the kernel reads peers' memory where it may; smaller messages come in pieces.
    std::size_t pull_from_bytes;
    std::function<bool(Rank)> has_process_ended;
    /// Completes when no peer touches this rank's memory any more: after a failure.
    std::function<Task<>()> withdraw;
  };

  explicit Matching(Use use);
  ~Matching();

  /// Sends or receives without suspending, if it can.
  /// Then it has the tag and the size of what was received.
  [[nodiscard]] bool try_complete_now(MessageRequest& request) noexcept;
  /// Sends, receives or waits for something to receive, and tells what it was. The request outlives the task.
  /// Throws Mismatch, PeerDied, DeadlineExceeded, ...: the communicator's cause; Cancelled alone if the peer
  /// knows of nothing yet.
  Task<Envelope> run(const MessageRequest& request);
  /// What is there already of what a probe asks for, as far as it has been read. Throws the communicator's
  /// cause.
  [[nodiscard]] std::optional<Envelope> look_now(const MessageRequest& probe);

  /// The communicator has failed: ends all that is under way with the cause.
  void fail(const Error& cause) noexcept;
  /// That rank has left in good order: what still waits for it will not get it.
  void peer_left(Rank peer);
  [[nodiscard]] bool is_idle() const noexcept { return flights_.empty(); }
  /// "send of 8 bytes to rank 1 (node7, pid 4121) with tag 3", of what is under way the first; for errors.
  [[nodiscard]] std::optional<std::string> current_operation();
  /// The same, and of those that have failed and wait for what others say of it, if there are no others.
  [[nodiscard]] std::optional<std::string> last_operation();

  // PacketHandler:
  void packets_came(Rank from) noexcept override { (void)advance(from); }
  [[nodiscard]] Waiting waiting_for(Rank from) const noexcept override;
  void room_came(Rank to) noexcept override;

 private:
  /// A send() that suspends.
  struct Outgoing : ListHook {
    explicit Outgoing(const MessageRequest& asked) noexcept : request(asked) {}
    const MessageRequest& request;
    std::uint32_t id = 0;
    bool is_offered = false;
    bool is_asked_for = false;       ///< the receiver waits for its bytes
    bool is_wanted = false;          ///< somebody receives it: it was answered
    std::optional<Packet> copy_too;  ///< the receiver copies it, and this rank may, too
    bool is_over = false;
    std::size_t sent_bytes = 0;
    Notify news;
  };
  /// A recv() that suspends: posted until it is matched.
  struct Incoming : ListHook {
    explicit Incoming(const MessageRequest& asked) noexcept
        : request(asked), tag(asked.tag), bytes(asked.bytes) {}
    const MessageRequest& request;
    Rank from = 0;
    // Of the message, once it is matched:
    std::int32_t tag;
    std::size_t bytes;
    bool is_matched = false;
    bool is_offered = false;  ///< and then this is the offer
    Packet offer;
    std::size_t arrived_bytes = 0;
    bool is_over = false;
    Notify news;
  };
  /// A probe that waits.
  struct Looker : ListHook {
    ~Looker() { unlink(); }
    Notify news;
  };
  /// What nobody wants so far.
  struct Unexpected {
    Packet packet;
    std::uint64_t order = 0;  ///< of arrival, among those of all ranks
    std::vector<std::byte> payload{};
    bool is_whole = false;
    Incoming* wanted_by = nullptr;  ///< before it is whole
  };
  struct Peer {
    std::unique_ptr<PacketChannel> channel;
    std::size_t flights = 0;  ///< with this rank, not with whomever
    std::deque<Packet> replies;
    IntrusiveList<Incoming> answering;  ///< those that are over when the replies have gone out
    IntrusiveList<Outgoing> unsent;
    // In bulk, in the order in which the receiver asks: the first one is moved.
    IntrusiveList<Outgoing> moving_out;
    IntrusiveList<Incoming> moving_in;
    bool is_copying_in = false;                  ///< a message that both ends copy
    std::map<std::uint32_t, Outgoing*> offered;  ///< by this rank, until they are over
    std::map<std::uint32_t, Incoming*> coming;   ///< in pieces, by the peer's number; null: given up
    std::deque<Unexpected> unexpected;
    std::uint32_t next_id = 0;
    std::size_t unused_bytes = 0;  ///< that this rank has sent and the peer has not used up
    std::size_t owed_bytes = 0;    ///< that were used up here, and the peer does not know
    bool is_being_told = false;    ///< of them: by pay(), in a turn or two
    std::uint64_t heard = 0;       ///< packets
    // Of the packet that is being taken:
    std::byte* into = nullptr;
    Incoming* taking = nullptr;
    std::vector<std::byte> sink;  ///< for what is not wanted any more

    void take_into_sink() {
      sink.resize(channel->most_piece());
      into = sink.data();
    }
  };
  /// One run(): its scope ends with the caller's, with the time, and with the communicator.
  struct Flight : ListHook {
    Flight(Matching& matching, const MessageRequest& asked, CancelScope* around);
    ~Flight();
    Matching& owner;
    const MessageRequest& request;
    const TimePoint start;
    CancelScope scope;
    bool is_known_to_peer = false;
    bool is_known_here = false;         ///< that the peer has called what belongs to it
    std::optional<TimePoint> failed{};  ///< since then waits for nothing, but for what others say of it
  };
  /// Of the flights with the same peer, or with anybody.
  [[nodiscard]] std::size_t& flights_like(const MessageRequest& request) noexcept {
    return request.peer == MessageRequest::kAnybody ? flights_with_anybody_ : peers_[request.peer].flights;
  }
  class OutgoingPlace;
  class IncomingPlace;

  static void wake(Notify& news) noexcept {
    if (news.untaken_posts() == 0) news.post();
  }
  [[nodiscard]] bool try_send_now(const MessageRequest& request) noexcept;
  [[nodiscard]] bool try_receive_now(MessageRequest& request) noexcept;
  Task<Envelope> begin(const MessageRequest& request, Flight& flight);
  Task<Envelope> send(const MessageRequest& request, Flight& flight);
  Task<Envelope> receive(const MessageRequest& request, Flight& flight);
  Task<Envelope> look(const MessageRequest& request);
  Task<> push(Outgoing& outgoing);
  Task<> move_out(Outgoing& outgoing, BulkChannel& bulk);
  Task<> move_in(Incoming& incoming, BulkChannel& bulk);
  template <class Message, class Move>
  Task<> move_in_turn(IntrusiveList<Message>& queue, Message& message, BulkChannel& bulk, Move move);
  Task<> fetch(Incoming& incoming);
  class SharedCopy;
  Task<> copy_mapped(Incoming& incoming, const std::byte* from);
  Task<> copy_own(Incoming& incoming, const std::byte* from);
  [[nodiscard]] bool may_share(const Incoming& incoming, Packet& packet) const noexcept;
  Task<> copy_too(Outgoing& outgoing);
  void copy_part(const CooperativeCopy::Part& part, std::byte* to, const std::byte* from,
                 std::size_t bytes) const noexcept;
  /// Whether copying a message of so many bytes through the caches would take more than it leaves there.
  [[nodiscard]] bool is_beyond_caches(std::size_t bytes) const noexcept { return bytes > cache_bytes_; }
  Task<> pause(const host::Touch& touch);
  Task<> let_others_run();
  [[nodiscard]] bool pulls(const Packet& offer) const noexcept {
    return may_pull_ && offer.where == Packet::Where::peer_address && offer.bytes >= use_.pull_from_bytes;
  }
  Task<bool> pull(Incoming& incoming);
  Task<> hear_of_others(const MessageRequest& request, const std::exception_ptr& failure);
  [[nodiscard]] std::string describe(const MessageRequest& request) const;
  /// At a deadline of a message that the other end knows nothing of, with what to do.
  [[nodiscard]] std::string why_unanswered(const MessageRequest& request) const;
  [[nodiscard]] Error settle(const Flight& flight, const std::exception_ptr& failure) noexcept;
  [[nodiscard]] Error find_own_failure(const Flight& flight, const std::exception_ptr& failure);

  void open(Rank rank);
  void open_all_of(const MessageRequest& request);
  /// Reads and sends as drain() and flush() do; without memory for it the communicator fails.
  bool advance(Rank rank) noexcept;
  void advance_all_of(const MessageRequest& request) noexcept;
  /// Reads what has come, as long as the engine's turn lasts. Whether anything had.
  bool drain(Rank from);
  /// Sends what had no room. Whether anything went out.
  bool flush(Rank to);
  [[nodiscard]] bool announce(Peer& peer, Outgoing& outgoing);
  [[nodiscard]] bool send_small(Peer& peer, const MessageRequest& request) noexcept;
  void aim(Rank from, const Packet& packet);
  void finish(Rank from, const Packet& packet);
  void finish_message(Rank from, const Packet& packet);
  void finish_piece(Rank from, const Packet& packet);
  void take_offer(Rank from, const Packet& packet);
  void take_answer(Rank from, const Packet& packet);
  [[nodiscard]] Incoming* take_posted(Rank from, const Packet& packet);
  struct Found {
    Rank from = 0;
    std::deque<Unexpected>::iterator message{};
  };
  [[nodiscard]] std::optional<Found> find_unexpected(const MessageRequest& request);
  [[nodiscard]] bool match_unexpected(Incoming& incoming);
  void match_claimed(Incoming& incoming);
  [[nodiscard]] std::optional<Envelope> find_for_probe(const MessageRequest& request);
  void wake_lookers() noexcept {
    lookers_.for_each([](Looker& looker) { wake(looker.news); });
  }
  void match(Incoming& incoming, Rank from, const Packet& packet);
  void deliver(Incoming& incoming, Unexpected& message);
  void reply(Rank to, const Packet& packet);
  void use_up(Rank from, std::size_t bytes);
  Task<> pay(Rank to);
  void fail_nonsense(Rank from, std::string_view what);
  void fail_without_memory() noexcept;
  Task<> fail_if_missed(Rank peer);
  /// Packets that were read of those that have left.
  [[nodiscard]] std::uint64_t last_words() const noexcept;
  /// Whether it waits for that rank, or, waiting for anybody when nobody is there, for who was there last.
  [[nodiscard]] bool waits_for(const Flight& flight, Rank peer) const noexcept;

  bool poll() noexcept override;

  const Use use_;
  const Error no_memory_;  ///< made while there is some
  host::HostGroup* const group_;
  bool may_pull_ = true;  ///< until the kernel forbids it
  std::vector<Peer> peers_;
  const std::size_t cache_bytes_;  ///< of the last level
  std::vector<Rank> mapped_;       ///< whose packets are polled for
  IntrusiveList<Incoming> posted_;
  IntrusiveList<Looker> lookers_;
  std::map<std::uint64_t, std::pair<Rank, Unexpected>> claimed_;
  std::uint64_t claims_ = 0;
  IntrusiveList<Flight> flights_;
  std::size_t flight_count_ = 0;
  std::size_t flights_with_anybody_ = 0;
  std::uint64_t arrivals_ = 0;
  unsigned calls_since_look_ = 0;
};

}  // namespace cohort
