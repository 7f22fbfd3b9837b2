// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/engine/system/process_watch.h>
#include <cohort/net/control_message.h>
#include <cohort/net/control_queue.h>
#include <cohort/net/control_relay.h>
#include <cohort/net/membership.h>
#include <cohort/notify/notify.h>

#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace cohort {

/// The authenticated connections between ranks, apart from the data: who lives, who left, what went wrong.
///
/// Where the ranks are many on many hosts, only neighbours are connected from the start
/// (Membership::is_sparse()), and what the communicator that was joined says to others is passed on
/// (ControlRelay). What is said in a group, or has to come although all neighbours compute, goes over a
/// connection from the one to the other, which is made for it: the kernel of a rank that computes takes it,
/// that of one that is dead refuses. Each end notices how such a connection ends, as that to a neighbour.
///
/// What this rank itself has not enough for ends the connection to a peer no more than the peer does: it
/// fails a task of the scope that it listens in. Nor does a peer that takes nothing for a while, since it
/// computes: what it is told waits in a queue.
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
    /// An invite, or a message with a group's number. Throws std::bad_alloc: then it was not taken.
    virtual void on_group_message(Rank from, const ControlMessage& message) = 0;
    /// That rank says nothing more: its connection or its process has ended, after it has left the
    /// communicator in good order or not.
    virtual void on_end(Rank peer, bool said_goodbye) noexcept = 0;

   protected:
    ~GroupHandler() = default;
  };

  ControlPlane(Engine& engine, Membership& membership, Handler& handler);
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
  /// they come. Where not all are connected, it sends hello_for() of this rank itself to those that are no
  /// neighbours, and takes theirs, which are passed on. Both are called for each peer and may throw: the
  /// first Mismatch, else the first failure, is thrown when all hellos are through, so that a rank that
  /// refuses does not keep the others from seeing why.
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

  /// Never waits: what the peer has no room for yet is kept, see ControlQueue. Where this rank has no room
  /// for it, that is its own failure, and a last word is said by the end of the connection. False: nobody
  /// will be told.
  bool send(Rank peer, const ControlMessage& message) noexcept;
  /// The same over a connection to that peer, which is made if there is none.
  bool send_directly(Rank peer, const ControlMessage& message) noexcept;
  /// To all others, in the communicator that was joined.
  void tell_all(const ControlMessage& message) noexcept;
  /// To those with whom this rank is connected from the start.
  void tell_neighbours(const ControlMessage& message) noexcept;
  /// Makes a connection to that peer if there is none: that it ended is known then. At once: nothing waits.
  void reach(Rank peer) noexcept;
  /// Whether that rank, which is no neighbour, is not there any more, and has not said goodbye as far as it
  /// was passed on: whether it left or died, those know who were connected with it.
  [[nodiscard]] bool has_refused(Rank peer) const noexcept {
    return peers_[peer].has_refused && !peers_[peer].said_goodbye;
  }
  /// What a peer has made to this rank, which is no neighbour.
  void take_call(Rank peer, Socket socket);
  /// Whether what is said to all is passed on.
  [[nodiscard]] bool is_sparse() const noexcept { return membership_.is_sparse(); }
  /// Whether this rank would notice the end of that one by a connection of its own.
  [[nodiscard]] bool is_linked(Rank peer) const noexcept {
    return membership_.control[peer].is_open() && !peers_[peer].has_ended;
  }
  /// Suspends until the peers have taken all that they were told; with `linked`, those that there are
  /// connections to. Throws only the cause of its scope.
  enum class Receivers : std::uint8_t { all, linked };
  Task<> until_sent(Receivers receivers = Receivers::all);
  /// Whether that rank can still be told anything.
  [[nodiscard]] bool is_reached(Rank peer) const noexcept;
  /// Whether that rank's process is watched and has ended, as the kernel knows now: its number may be another
  /// one's by the next moment.
  [[nodiscard]] bool has_process_ended(Rank peer) const noexcept;
  /// Of a rank of another host: as Socket::silence().
  [[nodiscard]] Duration silence(Rank peer) const noexcept;
  /// Whether the connection to that rank ended since its host did not answer any more.
  [[nodiscard]] bool has_lost_host(Rank peer) const noexcept {
    return membership_.control[peer].has_lost_host();
  }
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
    bool may_go_on = true;         ///< others are still to hear this rank's hello, and it theirs
    void note(std::exception_ptr failure) noexcept;
    /// That what a peer says does not fit.
    void note_words(std::exception_ptr failure) noexcept;
  };
  /// While hellos are exchanged.
  struct Hellos {
    const Taken& taken;
    HelloFailures& failures;
  };
  struct Held {
    Rank from = 0;
    ControlMessage message;
  };
  Task<> send_hello(Rank peer, const Hello& hello);
  Task<> hear_hello(Rank peer, const Taken& taken, HelloFailures& failures);
  Task<> hear_last_words(Rank peer, HelloFailures& failures);
  Task<> receive_hello(Rank peer, ControlMessage& message, std::vector<Descriptor>& descriptors);
  void listen_if_met(Rank peer);
  Task<> listen(Rank peer);
  Task<bool> hear_until_end(Rank peer, Socket& socket);
  Task<> hear(Rank peer, Socket& socket);
  Task<> watch_process(Rank peer);
  Task<> fail(Error own_fault);
  /// Sends what waits for that peer as it finds room.
  Task<> tell(Rank peer);
  void flush(Rank peer) noexcept;
  void cannot_tell(Rank peer, int error_number, bool is_last_word) noexcept;
  Task<> report_shortages();
  Task<> watch_hosts();
  void take(Rank peer, const ControlMessage& message);

  // Where not all are connected (control_plane_sparse.cpp):
  Task<> exchange_passed_hellos(const HelloFor& hello_for);
  Task<> say_hello_by_all_ways();
  void take_passed(Rank from, const ControlMessage& message);
  void tell_linked(Rank peer, const ControlMessage& message) noexcept;
  void take_passed_hello(const ControlMessage& message) noexcept;
  void pass_on(Rank from, const ControlMessage& message);
  Task<> call(Rank peer);
  Task<> listen_to_caller(Rank peer);
  Task<> wait_for_last_words(Rank peer);
  [[nodiscard]] std::optional<Rank> next_living(bool is_upwards) const noexcept;
  Task<> bridge_gaps();
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
    ControlQueue queue{};
    Notify has_queued{};
    bool hangs_up = false;  ///< it is not told why
    HostWatch host_watch{};
    bool is_called = false;  ///< by this rank, after the joining
    bool has_refused = false;
    Socket caller{};  ///< what it has made itself after the joining: only heard, but for last words
    Socket next_caller{};
  };
  [[nodiscard]] bool has_untold(Rank peer) const noexcept {
    return is_reached(peer) && !peers_[peer].queue.is_empty();
  }

  Engine& engine_;
  Membership& membership_;
  Handler& handler_;
  GroupHandler* group_handler_ = nullptr;
  TaskScope* services_ = nullptr;
  bool waits_for_room_ = false;
  ControlRelay relay_;
  Hellos* hellos_ = nullptr;
  ControlMessage own_hello_;         ///< that is passed on
  bool are_neighbours_met_ = false;  ///< before, what is passed on is held
  std::vector<Held> held_;
  std::optional<ControlMessage> passed_cause_;  ///< the first revoke of another rank that was passed on
  Notify has_hello_;                            ///< that was passed on
  Notify has_departed_;                         ///< somebody
  std::vector<Peer> peers_ = std::vector<Peer>(membership_.size);
  Notify has_drained_;   ///< a queue
  Notify has_shortage_;  ///< of this rank's
  int shortage_ = 0;
  Rank shortage_for_ = 0;
};

/// One communicator's words on the control plane: those of the one that was joined, or of a group in it.
/// Threads: the engine's. Lifetime: the plane's.
class ControlChannel : Immovable {
 public:
  /// `number`: this rank's of the group, 0: none. `ranks`: by rank of the communicator, the rank on the
  /// plane; outlives this.
  ControlChannel(ControlPlane& plane, GroupNumber number, Rank own, std::span<const Rank> ranks) noexcept
      : plane_(plane), number_(number), own_(own), ranks_(ranks) {}

  bool send(Rank peer, ControlMessage message) noexcept;
  /// To all others.
  void broadcast(ControlMessage message) noexcept;
  /// As ControlPlane's, of the communicator that was joined, where what is said to all is passed on: else
  /// to all, and to nobody else than send() would.
  void tell_neighbours(ControlMessage message) noexcept;
  bool send_directly(Rank peer, ControlMessage message) noexcept;
  void reach(Rank peer) noexcept { plane_.reach(ranks_[peer]); }
  [[nodiscard]] bool is_linked(Rank peer) const noexcept { return plane_.is_linked(ranks_[peer]); }
  [[nodiscard]] bool has_refused(Rank peer) const noexcept { return plane_.has_refused(ranks_[peer]); }
  /// Whether what goes to all is passed on.
  [[nodiscard]] bool is_passed_on() const noexcept { return number_ == 0 && plane_.is_sparse(); }
  /// As ControlPlane's.
  [[nodiscard]] Duration silence(Rank peer) const noexcept { return plane_.silence(ranks_[peer]); }
  [[nodiscard]] bool has_process_ended(Rank peer) const noexcept {
    return plane_.has_process_ended(ranks_[peer]);
  }
  [[nodiscard]] bool has_lost_host(Rank peer) const noexcept { return plane_.has_lost_host(ranks_[peer]); }

 private:
  ControlPlane& plane_;
  const GroupNumber number_;
  const Rank own_;
  const std::span<const Rank> ranks_;
};

}  // namespace cohort
