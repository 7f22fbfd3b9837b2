// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/running_call.h>
#include <cohort/collectives/call/signature.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/control_plane.h>

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <optional>

namespace cohort {

/// What to do about what `at` is short of, cannot do or does wrong.
[[nodiscard]] std::string advice_on(ErrorKind own_fault, const PeerInfo& at);

/// Whether a communicator still works, and if not, why: the one cause that every rank gives to its callers.
///
/// Collects what the control plane, the links and the running collective report; settles on the first cause,
/// tells it to all ranks before any connection closes, and cancels what runs. A disagreement is settled only
/// when every rank's signature is known, or did not come in time, so that all name the same culprit. Threads:
/// the engine's.
class Health final : public ControlPlane::Handler, Immovable {
 public:
  /// The communicator's side: ends the running collective with the cause.
  using OnFailure = std::function<void(const Error& cause)>;
  /// Whether something waits for a peer's bytes on a link that is closed, and so will not get them.
  using IsCutOff = std::function<bool(Rank peer)>;

  Health(Engine& engine, const Membership& membership, ControlChannel& control,
         const RunningOperation& running, const RunningCall& call, TaskScope& services,
         const AlgorithmTable& algorithms, OnFailure on_failure, IsCutOff is_cut_off);

  [[nodiscard]] bool is_failed() const noexcept { return cause_.has_value(); }
  [[nodiscard]] const Error& cause() const noexcept { return *cause_; }
  /// What a caller gets whose operation ended with `failure` when this had failed: the cause, or Cancelled
  /// where this rank cancelled it and gave up because of another one. Requires is_failed().
  [[nodiscard]] Error cause_of(const std::exception_ptr& failure) const noexcept;

  /// All that joining, or making a group, waits for has come.
  void joined() noexcept { is_joining_ = false; }
  /// Before each collective: remembers its signature; fails if somebody it needs has left. False if failed.
  [[nodiscard]] bool begin(std::uint64_t sequence, const Signature& signature) noexcept;
  /// The running collective makes no progress: tell everybody what it is, so that a disagreement shows.
  void report_stall() noexcept;
  /// Asks everybody what they run: those that live and have come to the running collective say so at once,
  /// whether it stalls there or not. Who owes an answer about that collective already is not asked again, nor
  /// is anybody so soon after the last question that it would be the same, where it is passed on.
  void ask_around() noexcept;
  /// Asks that rank as well over a connection of their own, where the question was passed on and may have
  /// come to nobody who reads.
  void ask_directly(Rank peer) noexcept;
  /// Whether what is said to all is passed on: whoever is to be named is asked directly before.
  [[nodiscard]] bool is_passed_on() const noexcept { return control_.is_passed_on(); }
  /// Whether a disagreement has been found, and all are asked.
  [[nodiscard]] bool is_resolving() const noexcept { return is_resolving_ && !is_failed(); }
  /// Between collectives: fails if a rank has left before that one, the last.
  void check_departures(std::uint64_t sequence) noexcept;
  [[nodiscard]] bool has_anybody_left_before(std::uint64_t sequence) const noexcept;
  /// Whether all are known to have come to it, or are gone.
  [[nodiscard]] bool have_all_come(std::uint64_t sequence) const noexcept;
  /// Or have said since ask_around() what they have come to.
  [[nodiscard]] bool have_all_answered(std::uint64_t sequence) const noexcept;
  /// What the rank that is farthest behind is known to have come to.
  [[nodiscard]] std::uint64_t lowest_seen() const noexcept;
  /// Whether that rank has said nothing since ask_around(), though it is there.
  [[nodiscard]] bool is_silent(Rank peer) const noexcept {
    return !peers_[peer].has_answered && !peers_[peer].departed;
  }
  /// Whether this rank ran something else under this number, as far as it remembers.
  [[nodiscard]] bool ran_another(std::uint64_t sequence, const Signature& than) const noexcept {
    const Signature* const mine = remembered(sequence);
    return mine != nullptr && *mine != than;
  }
  /// What is known of that rank once it was asked: "it is in recv of 8 bytes ...", "nothing has come from its
  /// host for 3.0 s". Empty if nothing is.
  [[nodiscard]] std::string whereabouts_of(Rank peer) const;
  /// `peer` runs something else under this number.
  void report_mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept;
  /// A link broke: if a dead peer is the cause, that is known within a grace time; else it is a fault of the
  /// link. What the peer says wrong, or this rank has not enough for, is known at once.
  void report_link_fault(Rank peer, const Error& error) noexcept;
  /// This rank gives up the call that runs, and says why once it has asked around: until then the peer is not
  /// to take a link that ends for a fault.
  void tell_giving_up(Rank peer) noexcept;
  /// The same to all, whose connections may end before they stand.
  void tell_giving_up() noexcept;
  /// The call that runs cannot go on for the same reason, such as a connection that cannot be made: returns
  /// when the communicator has failed, of that or of what was behind it.
  Task<> settle_link_fault(Rank peer, Error error);
  /// Gives the communicator up, here and everywhere.
  void fail(const Error& cause) noexcept;
  /// The same here alone: the others hear of it from where this rank has.
  void fail_as_heard(const Error& cause) noexcept;
  /// Does something by which the communicator may fail. Where there is no memory for it, or to say what is
  /// wrong, that is what it fails of.
  template <class Work>
  void unless_out_of_memory(const Work& work) noexcept {
    try {
      work();
    } catch (const std::bad_alloc&) {
      fail(no_memory_);
    }
  }
  /// That the connection to that rank broke, for a reason that is given in words.
  [[nodiscard]] Error link_fault(Rank peer, std::string_view why) const;
  /// Called for each rank that leaves in good order.
  void set_on_goodbye(std::function<void(Rank)> on_goodbye) { on_goodbye_ = std::move(on_goodbye); }
  /// What is under way besides collectives, as text for errors, if anything is: of what has failed here only
  /// if that is asked for.
  enum class OfWork : std::uint8_t { that_waits, also_failed };
  using OtherWork = std::function<std::optional<std::string>(OfWork)>;
  void set_other_work(OtherWork other_work) { other_work_ = std::move(other_work); }
  /// From now on departures are no news: this rank leaves itself.
  void leave() noexcept { is_leaving_ = true; }
  [[nodiscard]] bool is_leaving() const noexcept { return is_leaving_; }

  void on_control(Rank from, const ControlMessage& message) noexcept override;
  void on_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence) noexcept override;

  /// Whether that rank's process is known to have ended, or to have left in good order: it touches nothing
  /// more.
  [[nodiscard]] bool is_gone(Rank peer) const noexcept {
    const bool is_dead = cause_ && cause_->kind() == ErrorKind::PeerDied && cause_->culprit() == peer;
    return is_dead || (peers_[peer].departed && !peers_[peer].is_suspected);
  }
  /// Whether that rank has left, and no other one after it.
  [[nodiscard]] bool has_left_last(Rank peer) const noexcept {
    return peers_[peer].departure != 0 && peers_[peer].departure == departures_;
  }
  /// Whether a peer has said that it waits for others itself: since it was asked, or, if it has not answered,
  /// in this collective or the one before.
  [[nodiscard]] bool waits_too(Rank peer, std::uint64_t sequence) const noexcept {
    const PeerState& state = peers_[peer];
    if (state.has_answered) return state.is_waiting;
    return state.stalled_in && *state.stalled_in + 1 >= sequence;
  }
  /// Whether a peer has said, since it was asked, that it has not joined yet, and waits for others in that.
  [[nodiscard]] bool is_joining(Rank peer) const noexcept {
    const PeerState& state = peers_[peer];
    return state.has_answered && state.is_waiting && state.stalled_in == 0 && state.last_seen == 0;
  }
  /// The highest collective that a peer is known to have started.
  [[nodiscard]] std::uint64_t last_seen(Rank peer) const noexcept {
    const PeerState& state = peers_[peer];
    return state.is_gone ? state.last_seen : std::max(state.last_seen, state.departed_after);
  }

  /// So many of this rank's last messages are remembered.
  static constexpr std::size_t kHistory = 256;

 private:
  struct PeerState {
    bool departed = false;
    bool is_lost_elsewhere = false;   ///< another rank lost it, too
    bool is_alive_elsewhere = false;  ///< another rank still has it
    bool is_suspected = false;        ///< its connection ended here, and what that means is being found out
    bool is_gone = false;             ///< is not there any more, and nobody has said why
    std::uint64_t departed_after = 0;
    std::uint64_t departure = 0;  ///< the first one is 1
    std::uint64_t last_seen = 0;
    bool has_answered = false;                ///< since this rank asked around
    bool is_waiting = false;                  ///< by its last answer
    bool gives_up = false;                    ///< says why as soon as it knows
    std::optional<std::uint64_t> asked;       ///< of that collective, without an answer so far
    std::optional<std::uint64_t> stalled_in;  ///< a collective, as it says itself; 0: in joining
    Signature last_signature;
    std::string is_in{};  ///< which call or message, as it said last
  };
  struct HistoryEntry {
    std::uint64_t sequence = 0;
    std::uint64_t call = 0;  ///< RunningCall::number()
    Signature signature;
  };

  /// With the number of the call that runs, if one does.
  [[nodiscard]] Error of_call(const Error& error) const;
  [[nodiscard]] bool is_in_call() const noexcept { return running_.is_running || call_.whole(); }
  [[nodiscard]] const HistoryEntry* entry_of(std::uint64_t sequence) const noexcept;
  [[nodiscard]] const Signature* remembered(std::uint64_t sequence) const noexcept;
  [[nodiscard]] ControlMessage status(ControlMessage::Type type, std::uint64_t sequence) const noexcept;
  [[nodiscard]] std::string whereabouts() const noexcept;
  static void note_whereabouts(PeerState& state, const ControlMessage& message) noexcept;
  void take_status(Rank from, const ControlMessage& message) noexcept;
  /// For the verdict.
  void enter(Rank rank, const Signature& signature) noexcept;
  [[nodiscard]] bool is_entered(Rank rank) const noexcept;
  /// What a rank has come to last, as it says.
  void take_signature(Rank from, const ControlMessage& message) noexcept;
  [[nodiscard]] ControlMessage answer_about(std::uint64_t sequence) const noexcept;
  /// What this rank has come to, as it tells others: what it measures while it joins is no collective.
  [[nodiscard]] std::uint64_t own_sequence() const noexcept { return is_joining_ ? 0 : running_.sequence; }
  void answer(Rank to, const ControlMessage& query) noexcept;
  Task<> answer_all();
  void take_news_of_peer(Rank from, const ControlMessage& message);
  void take_control(Rank from, const ControlMessage& message);
  void take_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence);
  void find_disagreement(Rank peer, std::uint64_t sequence, const Signature& theirs);
  [[nodiscard]] static ControlMessage news(ControlMessage::Type type, Rank about) noexcept;
  /// Whether anybody else could know whether that rank lives.
  [[nodiscard]] bool has_witness(Rank of) const noexcept;
  [[nodiscard]] bool left_before(Rank peer, std::uint64_t sequence) const noexcept {
    return peers_[peer].departed && !peers_[peer].is_suspected && peers_[peer].departed_after < sequence;
  }
  [[nodiscard]] std::string current_operation() const;
  /// After which a rank has left.
  [[nodiscard]] std::string last_call_of(Rank departed) const;
  [[nodiscard]] Error died(Rank peer) const;
  /// Nothing comes from its host any more, and nobody else has said that anything does. `hears_others`:
  /// another host answers; else it is this one that is cut off, or there is one other.
  [[nodiscard]] Error lost_host_of(Rank peer, bool hears_others) const;
  /// Whether all that was sent to a rank of another host is acknowledged.
  [[nodiscard]] bool hears_another_host() const noexcept;
  [[nodiscard]] std::size_t other_hosts() const;
  [[nodiscard]] Error left_early(Rank peer) const;
  /// Of one that this rank waits for.
  [[nodiscard]] Error gone(Rank peer) const;
  [[nodiscard]] Error own_fault(Rank peer, const Error& error) const;
  Task<> answer_later(Rank to, Rank about);
  Task<> resolve_departure(Rank peer);
  Task<> resolve_mismatch(std::uint64_t sequence);
  Task<> hear_why_link_broke(Rank peer);
  Task<> resolve_link_fault(Rank peer, Error error);
  Task<> look_for_lost_data(Rank peer);

  Engine& engine_;
  const Membership& membership_;
  ControlChannel& control_;
  const RunningOperation& running_;
  const RunningCall& call_;
  TaskScope& services_;
  const AlgorithmTable& algorithms_;  ///< for names in errors
  const OnFailure on_failure_;
  const IsCutOff is_cut_off_;
  std::function<void(Rank)> on_goodbye_;
  OtherWork other_work_;

  const Error no_memory_;  ///< made while there is some
  std::optional<Error> cause_;
  bool is_joining_ = true;
  bool is_leaving_ = false;
  bool is_resolving_ = false;
  std::uint64_t resolving_sequence_ = 0;
  std::vector<SignatureOfRank> table_;
  std::vector<PeerState> peers_;
  std::uint64_t departures_ = 0;
  TimePoint asked_at_{};                          ///< all others
  std::optional<std::uint64_t> asked_all_about_;  ///< where that is passed on
  std::vector<std::uint64_t> asked_about_;        ///< collectives, and all are about to be answered
  std::array<HistoryEntry, kHistory> history_{};
};

}  // namespace cohort
