// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/rendezvous.h>

#include <cohort/engine/io/route.h>
#include <cohort/engine/log.h>
#include <cohort/net/link_owner.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace cohort {
namespace {

constexpr Service kJoinOnly{.join = true};
/// The kernel takes a while to close what a killed process had in flight through io_uring.
constexpr Duration kVacationTime = std::chrono::milliseconds(250);
constexpr Duration kVacationInterval = std::chrono::milliseconds(5);

Gate::Handover handover_of(const JoinState& state) {
  if (state.meets_by_tcp()) return Gate::Handover::none;
  return state.is_secret_made_here ? Gate::Handover::secret_is_made_here : Gate::Handover::secret_is_given;
}

/// What stops rank 0 alone, as the others should see it.
Error as_told_by_rank_0(const Error& error, const PeerInfo& rank_0) {
  const bool is_own_wish =
      error.kind() == ErrorKind::Cancelled || error.kind() == ErrorKind::DeadlineExceeded;
  const Error told(is_own_wish ? ErrorKind::PeerAborted : error.kind(),
                   fmt::format("{} gave up joining: {}", rank_0.describe(), error.message()));
  return told.with_culprit(error.culprit().value_or(0));
}

Task<JoinFrame> receive_frame(Socket& socket, std::string from) {
  JoinFrameBytes bytes{};
  const bool came = co_await socket.receive(bytes);
  if (!came) throw Error(ErrorKind::LinkFault, "the connection ended");
  co_return decode_frame(bytes, from);
}

}  // namespace

Rendezvous::Rendezvous(JoinState& state, Listener& listener, std::optional<ControlLinks> links)
    : state_(state),
      membership_(state.membership),
      gate_(listener, membership_.secret, state.identity, kJoinOnly, *this, handover_of(state)),
      places_(membership_.size),
      links_(links) {
  places_[0].is_taken = true;
  places_[0].deadline = state.deadline;
}

Task<> Rendezvous::run(std::optional<Error> own_fault) {
  CancelScope* around = co_await current_scope();
  {
    TaskScope scope(around);
    Alarm alarm(*this);
    scope_ = &scope;
    alarm_ = &alarm;
    scope.spawn(gate_.serve());
    scope.spawn(report_progress());
    watch_deadlines();
    if (own_fault)
      fail_alone(*own_fault);
    else
      make_room();
    try {
      co_await scope.join();
    } catch (const Error& error) {
      if (!failure_) failure_ = as_told_by_rank_0(error, membership_.self());
      for (Rank rank = 1; rank < places_.size(); ++rank) tell(places_[rank].socket, places_[rank]);
      throw;
    }
  }
  if (own_fault_) throw Error(*own_fault_);
  if (failure_) throw Error(*failure_);
  co_await send_go();
}

/// For the members, who hear why if there is none, and for strangers, who get what is left.
void Rendezvous::make_room() {
  const std::string what_for = fmt::format("meeting {} ranks as rank 0", membership_.size);
  const std::size_t least = membership_.size;
  const std::size_t of_one_host = 2 * least;  // their processes are watched, too
  const std::size_t of_all = state_.meets_by_tcp() ? least : of_one_host;
  try {
    const std::size_t room =
        state_.engine.platform().make_room_for_descriptors(least, of_all + gate_.most_pending(), what_for);
    gate_.limit_places_beside(room - std::min(room, of_all + least));
  } catch (const Error& error) {
    fail(error.with_culprit(0));
  }
}

// Coming and going.

Task<> Rendezvous::welcome(Visitor visitor) {
  const Rank rank = visitor.peer.rank;
  ++in_hand_;
  bool is_seated = false;
  try {
    is_seated = co_await hear_and_seat(visitor);
  } catch (const Error&) {
    --in_hand_;
    Place newcomer;
    if (phase_ == Phase::over)
      send_away(visitor);
    else if (failure_)  // it was taken in the very moment in which this one leaves
      tell(visitor.socket, newcomer);
    throw;
  }
  --in_hand_;
  if (is_seated)
    co_await attend(rank);
  else
    conclude_if_all_informed();
}

/// False: it is told why not, or gone.
Task<bool> Rendezvous::hear_and_seat(Visitor& visitor) {
  const Rank rank = visitor.peer.rank;
  const std::optional<JoinFrame> introduction = co_await hear_introduction(visitor);
  if (!introduction) co_return false;
  if (!failure_) {
    const bool is_vacant = co_await wait_until_vacant(rank);
    if (!is_vacant && !failure_ && phase_ != Phase::gathering) {
      send_away(visitor);
      co_return false;
    }
    if (!is_vacant && !failure_)
      fail(Error(
               ErrorKind::DuplicateRank,
               fmt::format("two processes claim rank {}: {} and {}; give each process a rank of its own, and "
                           "each of two jobs a COHORT_NAME or a COHORT_ADDR",
                           rank, membership_.peers[rank].describe(), introduction->info.describe()))
               .with_culprit(rank));
  }
  Place newcomer;  // of one that comes too late
  if (failure_) {
    tell(visitor.socket, newcomer);
    co_return false;
  }
  seat(visitor, *introduction);
  co_return true;
}

/// All ranks are here, the visitor's own among them. Not one that is seated: its connection is the place's.
void Rendezvous::send_away(Visitor& visitor) {
  if (!visitor.socket.is_open()) return;
  const std::string holder = membership_.peers[visitor.peer.rank].describe();
  note(fmt::format("another rank {} came from {} (pid {}) and was sent away", visitor.peer.rank,
                   visitor.where, visitor.peer.pid));
  (void)visitor.socket.try_send(encode_complete(holder));
}

Task<std::optional<JoinFrame>> Rendezvous::hear_introduction(Visitor& visitor) {
  CancelScope* around = co_await current_scope();
  try {
    Task<JoinFrame> reading = receive_frame(visitor.socket, visitor.where);
    Task<JoinFrame> timed = with_deadline(kAuthenticationTime, std::move(reading));
    JoinFrame frame = co_await timed;
    if (frame.refusal) {
      const std::string who =
          fmt::format("rank {} (pid {}) at {}", visitor.peer.rank, visitor.peer.pid, visitor.where);
      if (!places_[visitor.peer.rank].is_taken) take_refusal(who, visitor.peer.rank, *frame.refusal);
      co_return std::nullopt;
    }
    const bool is_consistent = frame.kind == JoinFrame::Kind::introduction &&
                               frame.info.rank == visitor.peer.rank &&
                               frame.info.incarnation == visitor.peer.incarnation;
    if (is_consistent) co_return frame;
    note(fmt::format("rank {} at {} introduced itself with a message that is not allowed", visitor.peer.rank,
                     visitor.where));
  } catch (const Error& error) {
    if (around->is_cancelled()) throw;
    log(LogLevel::debug, "rank {} at {} went away before it was seated: {}", visitor.peer.rank, visitor.where,
        error.message());
  }
  co_return std::nullopt;
}

Task<bool> Rendezvous::wait_until_vacant(Rank rank) {
  const TimePoint until = after(state_.engine.now(), kVacationTime);
  while (places_[rank].is_taken && !failure_) {
    if (state_.engine.now() >= until || phase_ != Phase::gathering) co_return false;
    co_await state_.engine.sleep_for(kVacationInterval);
  }
  co_return true;
}

void Rendezvous::seat(Visitor& visitor, const JoinFrame& introduction) {
  const Rank rank = visitor.peer.rank;
  Place& place = places_[rank];
  place = Place();
  place.is_taken = true;
  place.socket = std::move(visitor.socket);
  place.where = visitor.where;
  membership_.peers[rank] = introduction.info;
  Address& address = membership_.peers[rank].data_address;
  if (address.size_bytes() != 0) address = route::on_link_of(address, place.socket.local_address());
  log(LogLevel::debug, "{} is here", introduction.info.describe());

  place.deadline = after(state_.engine.now(), introduction.patience);
  watch_deadlines();
  if (missing().empty()) begin_connecting();
}

Task<> Rendezvous::attend(Rank rank) {
  CancelScope* around = co_await current_scope();
  try {
    for (;;) {
      const JoinFrame frame =
          co_await receive_frame(places_[rank].socket, membership_.peers[rank].describe());
      heard(rank, frame);
    }
  } catch (const Error& error) {
    if (around->is_cancelled()) throw;
    log(LogLevel::debug, "{} left: {}", membership_.peers[rank].describe(), error.message());
    if (error.kind() == ErrorKind::ProtocolError) fail(error.with_culprit(rank));
  }
  departed(rank);
}

void Rendezvous::departed(Rank rank) {
  Place& place = places_[rank];
  place.is_taken = false;
  if (phase_ == Phase::connecting) mark_informed(place);
  if (!place.is_sending) place.socket = Socket();
  if (phase_ == Phase::connecting && !failure_)
    fail(Error(ErrorKind::PeerDied,
               fmt::format(
                   "{} died while the ranks were connecting; see what it printed, then start all ranks again",
                   membership_.peers[rank].describe()))
             .with_culprit(rank));
  conclude_if_all_informed();
}

void Rendezvous::heard(Rank rank, const JoinFrame& frame) {
  const std::string who = membership_.peers[rank].describe();
  if (frame.kind == JoinFrame::Kind::ready && phase_ == Phase::connecting) {
    places_[rank].is_ready = true;
    conclude_if_ready();
    return;
  }
  if (frame.kind == JoinFrame::Kind::waiting && phase_ == Phase::connecting) {
    places_[rank].waits_for = frame.text;
    return;
  }
  if (frame.kind != JoinFrame::Kind::refusal)
    throw Error(ErrorKind::ProtocolError,
                fmt::format("{} sent '{}' out of turn", who, to_string(frame.kind)));
  take_refusal(who, rank, *frame.refusal);
}

/// Before all are here, who gives up for what only concerns itself may be followed by another in its place.
/// What its process or its host lacks, the next one would lack, too.
void Rendezvous::take_refusal(const std::string& who, Rank rank, const Error& refusal) {
  if (failure_) return mark_informed(places_[rank]);  // it fails all the same
  if (phase_ == Phase::gathering && !is_own_fault(refusal.kind())) {
    note(fmt::format("{} gave up: {}", who, refusal.message()));
    return;
  }
  mark_informed(places_[rank]);
  const Error cause(refusal.kind(), fmt::format("{} reports: {}", who, refusal.message()));
  fail(cause.with_culprit(refusal.culprit().value_or(rank)));
}

void Rendezvous::on_refusal(const Refusal& refusal, const std::optional<Identity>& claimed) noexcept {
  const bool is_worth_a_note =
      refusal.reason != RefusalReason::truncated && refusal.reason != RefusalReason::not_cohort;
  const bool ends_all =
      refusal.reason == RefusalReason::world_mismatch || refusal.reason == RefusalReason::rank_range;
  const bool is_another_rank_0 = claimed && claimed->rank == 0;  // its own end tells it what to do
  if (claimed && refusal.is_authenticated && ends_all && !is_another_rank_0) {
    ++informed_;  // by the handshake, which it refused too
    fail(refusal.to_error().with_culprit(claimed->rank));
  } else if (claimed && refusal.reason == RefusalReason::bad_mac) {
    note(fmt::format("a process claiming rank {} (pid {}) failed authentication: it has another secret",
                     claimed->rank, claimed->pid),
         false);
  } else if (is_worth_a_note) {
    note(refusal.text, refusal.is_authenticated);
  }
}

// The table and after.

void Rendezvous::begin_connecting() {
  phase_ = Phase::connecting;
  log(LogLevel::debug, "all {} ranks are here after {}", places_.size(), state_.elapsed());
  table_.emplace(membership_.peers, links_);
  state_.links = table_->links();
  state_.neighbours = table_->neighbours_of(0);
  mesh_.emplace(state_, table_->records());
  for (Rank rank = 1; rank < places_.size(); ++rank) scope_->spawn(send_table(rank));
  scope_->spawn(connect_own());
}

Task<> Rendezvous::send_table(Rank rank) {
  Place& place = places_[rank];
  const bool is_told_all = table_->is_told_all(rank);
  std::vector<std::byte> part;
  if (!is_told_all) part = table_->part_for(rank);
  const std::span<const std::byte> bytes = is_told_all ? table_->whole() : part;
  place.is_sending = true;
  try {
    co_await place.socket.send(bytes);
  } catch (const Error& error) {
    log(LogLevel::debug, "sending the table to rank {}: {}", rank,
        error.message());  // attend() sees its end too
    co_return;             // after a part of it no other word makes sense
  }
  place.is_sending = false;
  if (failure_) tell_member(rank);
}

Task<> Rendezvous::connect_own() {
  CancelScope* around = co_await current_scope();
  try {
    co_await mesh_->connect();
    places_[0].is_ready = true;
    conclude_if_ready();
  } catch (const Error& error) {
    if (around->is_cancelled()) throw;
    fail_alone(error);
  }
}

void Rendezvous::conclude_if_ready() {
  const bool all = std::ranges::all_of(places_, [](const Place& place) { return place.is_ready; });
  if (all && !failure_) {
    phase_ = Phase::over;
    scope_->cancel();
  }
}

Task<> Rendezvous::send_go() {
  const JoinFrameBytes go = encode_signal(JoinFrame::Kind::go);
  for (Rank rank = 1; rank < places_.size(); ++rank) {
    Socket& socket = places_[rank].socket;
    try {
      co_await socket.send(go);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::SystemError)
        throw;  // it died just now: who uses the connection will see
    }
    socket.set_no_delay();
    if (ControlMesh::is_served_by_joining(state_, rank)) membership_.control[rank] = std::move(socket);
  }
}

// Failing.

void Rendezvous::fail(const Error& cause) {
  if (failure_) return;
  failure_ = cause;
  log(LogLevel::debug, "joining fails: {}", cause.what());
  for (Rank rank = 1; rank < places_.size(); ++rank) tell_member(rank);
  scope_->spawn(say_farewell());
}

void Rendezvous::fail_alone(const Error& own_fault) {
  if (!failure_) own_fault_ = own_fault;
  fail(as_told_by_rank_0(own_fault, membership_.self()));
}

/// Short enough for the socket's buffer; a member that does not take it learns from the end of the
/// connection.
void Rendezvous::tell(Socket& socket, Place& place) {
  if (!socket.is_open() || place.is_informed || place.is_sending) return;
  mark_informed(place);
  if (!socket.try_send(encode_refusal(*failure_, 0))) socket.shutdown();
}

/// Behind the table, where that is being sent or has filled the connection.
void Rendezvous::tell_member(Rank rank) {
  Place& place = places_[rank];
  if (!place.socket.is_open() || place.is_informed || place.is_sending) return;
  mark_informed(place);
  const JoinFrameBytes cause = encode_refusal(*failure_, 0);
  const int sent = place.socket.try_send_some(cause, {});
  if (std::cmp_equal(sent, cause.size())) return;
  if (sent < 0 && sent != -EAGAIN && sent != -EINTR)
    place.socket.shutdown();
  else
    scope_->spawn(tell_rest(rank, static_cast<std::size_t>(std::max(sent, 0))));
}

Task<> Rendezvous::tell_rest(Rank rank, std::size_t from) {
  Place& place = places_[rank];
  place.is_sending = true;
  const JoinFrameBytes cause = encode_refusal(*failure_, 0);
  try {
    co_await place.socket.send(std::span(cause).subspan(from));
  } catch (const Error& error) {
    log(LogLevel::debug, "telling rank {} why joining failed: {}", rank, error.message());
    co_return;  // attend() sees its end too
  }
  place.is_sending = false;
}

void Rendezvous::mark_informed(Place& place) noexcept {
  if (std::exchange(place.is_informed, true)) return;
  ++informed_;
}

Task<> Rendezvous::say_farewell() {
  conclude_if_all_informed();
  const bool is_any_amid_table =
      std::ranges::any_of(places_, [](const Place& place) { return place.is_taken && place.is_sending; });
  const bool is_last = failure_->kind() == ErrorKind::MissingRanks || phase_ == Phase::connecting;
  const bool is_wrong = failure_->kind() == ErrorKind::InvalidArgument && phase_ == Phase::gathering;
  const Duration usual = is_wrong ? kTellingTime : kFarewell;
  const Duration farewell = is_last && !is_any_amid_table ? kLastFarewell : usual;
  co_await state_.engine.sleep_for(farewell);
  scope_->cancel();
}

/// Members hang up when they have read the cause. To close before that could reset the connection under it,
/// and who is in hand, perhaps of another job, would take the end of the connection for a death.
void Rendezvous::conclude_if_all_informed() {
  if (!failure_) return;
  const auto others = std::span(places_).subspan(1);
  const bool nobody_is_here = std::ranges::none_of(others, [](const Place& place) { return place.is_taken; });
  const bool nobody_will_come = failure_->kind() == ErrorKind::MissingRanks || informed_ >= others.size();
  if (nobody_is_here && nobody_will_come && in_hand_ == 0) scope_->cancel();
}

/// Everybody fails when the first one that is here loses patience, for one cause that rank 0 can name.
void Rendezvous::watch_deadlines() {
  TimePoint earliest = kNever;
  for (const Place& place : places_)
    if (place.is_taken) earliest = std::min(earliest, place.deadline);
  state_.engine.timers().arm(*alarm_, earliest);
}

void Rendezvous::deadline_has_come() noexcept {
  if (phase_ == Phase::over) return;
  const auto is_over = [now = state_.engine.now()](const Place& place) {
    return place.is_taken && place.deadline <= now;
  };
  if (std::ranges::any_of(places_, is_over))
    fail(deadline_error());
  else
    watch_deadlines();  // whose it was has left
}

}  // namespace cohort
