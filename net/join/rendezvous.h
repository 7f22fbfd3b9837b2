// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/gate.h>
#include <cohort/net/join/control_mesh.h>
#include <cohort/net/join/join_frame.h>
#include <cohort/net/join/join_notes.h>
#include <cohort/net/join/join_state.h>
#include <cohort/net/join/told_table.h>

#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// Rank 0's side of joining: gathers the members, tells everybody the table, and lets all go when all are
/// ready.
///
/// A cause that ends the joining is told to every member, also to those that come within kFarewell after it.
/// A member that dies while others are missing frees its place for a new incarnation of it; once the table is
/// out, a death ends the joining.
///
/// Who comes when all ranks are there, or as another rank 0, is of another job, most likely: it is sent away,
/// and nobody here is disturbed.
///
/// Threads: the engine's. Lifetime: `state` and `listener` outlive run().
class Rendezvous final : private Gate::Handler, Immovable {
 public:
  static constexpr Duration kFarewell = std::chrono::seconds(2);
  /// Where a setting of one rank is wrong: for those who come that late.
  static constexpr Duration kTellingTime = std::chrono::seconds(10);
  /// After a deadline nobody else will come; those who are here get this long to hang up, unless one of them
  /// still takes the table, behind which the cause comes.
  static constexpr Duration kLastFarewell = std::chrono::milliseconds(200);

  /// `links`: as ToldTable's.
  Rendezvous(JoinState& state, Listener& listener, std::optional<ControlLinks> links = std::nullopt);

  /// Fills the state's membership; with a fault of this rank's own, only tells it to those who come. Errors:
  /// WorldSize, DuplicateRank (all told by name), MissingRanks at the earliest deadline of all that are
  /// there, PeerDied, PeerSilent; what a member reported; or that fault.
  Task<> run(std::optional<Error> own_fault = std::nullopt);

 private:
  enum class Phase : std::uint8_t { gathering, connecting, over };

  struct Place {
    bool is_taken = false;
    bool is_ready = false;
    std::string waits_for;     ///< while connecting, if it said so
    bool is_sending = false;   ///< in the middle of the table or of the cause, where it may have ended:
                               ///< nothing may come there
    bool is_informed = false;  ///< of the failure, or is its cause
    TimePoint deadline = kNever;
    Socket socket;  ///< until Membership::control takes it
    std::string where;
  };

  /// At the earliest deadline.
  struct Alarm final : Timer {
    explicit Alarm(Rendezvous& owner) : rendezvous(owner) {}
    void expire() noexcept override { rendezvous.deadline_has_come(); }
    Rendezvous& rendezvous;
  };

  void make_room();

  // Coming and going.
  Task<> welcome(Visitor visitor) override;
  void on_refusal(const Refusal& refusal, const std::optional<Identity>& claimed) noexcept override;
  Task<bool> hear_and_seat(Visitor& visitor);
  void send_away(Visitor& visitor);
  Task<std::optional<JoinFrame>> hear_introduction(Visitor& visitor);
  Task<bool> wait_until_vacant(Rank rank);
  void seat(Visitor& visitor, const JoinFrame& introduction);
  Task<> attend(Rank rank);
  void departed(Rank rank);
  void heard(Rank rank, const JoinFrame& frame);
  void take_refusal(const std::string& who, Rank rank, const Error& refusal);

  // The table and after.
  void begin_connecting();
  Task<> send_table(Rank rank);
  Task<> connect_own();
  void conclude_if_ready();
  Task<> send_go();

  // Failing.
  void fail(const Error& cause);
  void fail_alone(const Error& own_fault);
  void tell(Socket& socket, Place& place);
  void tell_member(Rank rank);
  Task<> tell_rest(Rank rank, std::size_t from);
  void mark_informed(Place& place) noexcept;
  Task<> say_farewell();
  void conclude_if_all_informed();
  void watch_deadlines();
  void deadline_has_come() noexcept;
  Task<> report_progress();

  // Texts.
  [[nodiscard]] Error deadline_error() const;
  [[nodiscard]] Error connecting_deadline_error() const;
  /// Those that are not connected yet: who says nothing, and who waits for whom.
  struct Unconnected {
    std::vector<Rank> silent;
    std::string reports;
  };
  [[nodiscard]] Unconnected unconnected() const;
  [[nodiscard]] std::string advice_on_hosts() const;
  [[nodiscard]] std::vector<Rank> missing() const;
  [[nodiscard]] std::string missing_and_present() const;  ///< with the notes in between
  void note(std::string text, bool has_proven_itself = true);

  JoinState& state_;
  Membership& membership_;
  Gate gate_;
  Phase phase_ = Phase::gathering;
  std::vector<Place> places_;  ///< by rank; 0 is this process
  const std::optional<ControlLinks> links_;
  std::optional<ToldTable> table_;  ///< once all are here
  std::optional<ControlMesh> mesh_;
  std::optional<Error> failure_;
  std::optional<Error> own_fault_;  ///< of which the failure is what the others hear
  std::size_t in_hand_ = 0;         ///< visitors that are neither seated nor told anything yet
  std::size_t informed_ = 0;        ///< processes that know the failure; of two with one rank, both count
  JoinNotes notes_;                 ///< who was turned away
  TaskScope* scope_ = nullptr;
  Alarm* alarm_ = nullptr;
};

}  // namespace cohort
