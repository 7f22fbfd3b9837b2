// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/member.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/interfaces.h>
#include <cohort/engine/io/route.h>
#include <cohort/engine/log.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/auth/authenticated_socket.h>
#include <cohort/net/auth/secret_handover.h>

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace cohort {
namespace {

constexpr Duration kCallAgainInterval = std::chrono::milliseconds(20);
/// For hosts that do not even refuse. What comes after it has deadlines of its own.
constexpr Duration kConnectTime = std::chrono::seconds(10);
/// At the deadline rank 0 tells everybody who was missing; so long we wait for that.
constexpr Duration kVerdictTime = std::chrono::seconds(2);

Error about_rank_0(ErrorKind kind, const std::string& text) { return Error(kind, text).with_culprit(0); }

bool is_transient(const Error& error) {
  return error.kind() == ErrorKind::SystemError || error.kind() == ErrorKind::LinkFault ||
         error.kind() == ErrorKind::DeadlineExceeded;
}

/// One attempt. Errors: those that another attempt may not have, too.
Task<Socket> call_once(const JoinState& state, std::optional<Secret>& secret) {
  Task<Socket> connecting = Socket::connect(state.engine, state.address);
  Task<Socket> in_time = with_deadline(kConnectTime, std::move(connecting));
  Socket socket = co_await in_time;
  if (!is_own_user(socket))
    throw about_rank_0(
        ErrorKind::AuthFailed,
        fmt::format("user {} listens at {}, and this process runs as another: choose another address",
                    socket.peer_credentials().user, state.where));
  const std::string& source = state.options.secret_source;
  if (!state.meets_by_tcp()) co_await obtain_secret(socket, secret, state.options.rank, state.where, source);
  const Callee callee{state.where, Rank{0}, std::nullopt};
  std::optional<Error> refusal;
  try {
    co_await authenticate_as_client(socket, *secret, state.identity, callee);
    co_return socket;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::AuthFailed) throw;
    refusal =
        about_rank_0(ErrorKind::AuthFailed, fmt::format("{}; this one is from {}", error.message(), source));
  }
  throw Error(*refusal);
}

/// Tells rank 0 for whom this one waits, so that it can tell who hangs from those who wait for it; again
/// whenever that has changed.
class WaitingReport final : private Timer {
 public:
  WaitingReport(const JoinState& state, const ControlMesh& mesh, Socket& rank_0)
      : engine_(state.engine), mesh_(mesh), rank_0_(rank_0) {
    const Duration half = (state.deadline - engine_.now()) / 2;
    arm_after(std::clamp(half, Duration::zero(), kInterval));
  }

 private:
  static constexpr Duration kInterval = std::chrono::seconds(1);

  void arm_after(Duration interval) noexcept { engine_.timers().arm(*this, after(engine_.now(), interval)); }

  /// Without memory for the words nothing is told: the next time, perhaps.
  void expire() noexcept override {
    try {
      const std::string waits_for = list_of_ranks(mesh_.missing());
      if (waits_for != told_ && rank_0_.try_send(encode_waiting(waits_for))) told_ = waits_for;
    } catch (const std::bad_alloc&) {
    }
    arm_after(kInterval);
  }

  Engine& engine_;
  const ControlMesh& mesh_;
  Socket& rank_0_;
  std::string told_;
};

PeerInfo record_at(std::span<const std::byte> records, Rank index, std::string_view who) {
  return decode_record(records.subspan(index * kPeerRecordBytes).first<kPeerRecordBytes>(), who);
}

Error taken_by(const JoinState& state, const std::string& holder) {
  const Error error(
      ErrorKind::DuplicateRank,
      fmt::format(
          "the job '{}' at {} has all of its {} ranks, and its rank {} is {}, not this process (pid {}): "
          "give another job another COHORT_NAME or COHORT_ADDR, or this process a rank of its own",
          state.options.name, state.where, state.options.size, state.options.rank, holder,
          state.identity.pid));
  return error.with_culprit(state.options.rank);
}

/// Rank 0 does not know yet where this rank runs.
Error from_host(const JoinState& state, const Error& error) {
  const Error told(error.kind(), fmt::format("on {}: {}", state.membership.self().host, error.message()));
  return error.culprit() ? told.with_culprit(*error.culprit()) : told;
}

Error unreachable(const JoinState& state, const std::string& reason) {
  return about_rank_0(
      ErrorKind::MissingRanks,
      fmt::format("rank {} found nobody at {} for {} ({}): rank 0 is missing; start it, or give all ranks "
                  "its address in COHORT_ADDR",
                  state.options.rank, state.where, state.elapsed(), reason));
}

/// By which the others reach this rank: that of the way to rank 0, unless COHORT_SOCKET_IFNAME says
/// otherwise.
Address own_address(const JoinState& state, const Socket& rank_0) {
  const Address routed = rank_0.local_address();
  if (routed.is_unix() || state.options.interfaces.is_any()) return routed;
  return choose_own_address(state.options.interfaces, interface_addresses(), rank_0.remote_address(), routed);
}

}  // namespace

Task<Socket> call_rank_0(const JoinState& state, std::optional<Secret>& secret, TimePoint until) {
  CancelScope* around = co_await current_scope();
  Engine& engine = state.engine;
  const bool is_given = secret.has_value();
  std::string reason;
  TimePoint next_report = after(engine.now(), kReportInterval);
  while (engine.now() < until) {
    try {
      Task<Socket> attempt = call_once(state, secret);
      Task<Socket> timed = with_deadline(until - engine.now(), std::move(attempt));
      co_return co_await timed;
    } catch (const Error& error) {
      const bool is_cancelled = around != nullptr && around->is_cancelled();
      if (is_cancelled || !is_transient(error)) throw;
      if (!is_given) secret.reset();  // of a rank 0 that has gone: the next one is of another job, maybe
      if (error.kind() != ErrorKind::DeadlineExceeded)
        reason = error.message();
      else if (reason.empty())  // else what was said before the time was over
        reason = "no answer to connecting";
    }
    if (engine.now() >= next_report) {
      next_report = after(engine.now(), kReportInterval);
      log(LogLevel::warn, "rank {} has waited {} for rank 0 at {}: {}", state.options.rank, state.elapsed(),
          state.where, reason);
    }
    co_await engine.sleep_for(kCallAgainInterval);
  }
  throw unreachable(state, reason);
}

Task<> Member::run() {
  TimePoint until = state_.deadline;
  for (;;) {
    const bool is_in = co_await attempt(until);
    if (is_in) co_return;
    const TimePoint now = state_.engine.now();
    if (until == state_.deadline) until = std::min(until, after(now, kOtherJobTime));
    if (now >= until) throw Error(*sent_away_);
    co_await state_.engine.sleep_for(kCallAgainInterval);
  }
}

/// Once a job has sent this rank away, the reason why nobody else takes it is that one.
Task<Socket> Member::call(std::optional<Secret>& secret, TimePoint until) {
  std::optional<Error> failure;
  try {
    co_return co_await call_rank_0(state_, secret, until);
  } catch (const Error& error) {
    failure = sent_away_ && error.kind() == ErrorKind::MissingRanks ? *sent_away_ : error;
  }
  throw Error(*failure);
}

/// False: the job at the address needs nobody any more.
Task<bool> Member::attempt(TimePoint until) {
  std::optional<Secret> secret;  // that of another rank 0 is of no use
  const bool is_given = state_.options.secret && state_.options.secret->is_set();
  if (is_given || state_.meets_by_tcp()) secret = Secret::from_bytes(membership_.secret.bytes());
  is_introduced_ = false;
  Socket rank_0 = co_await call(secret, until);
  membership_.secret = *std::move(secret);

  CancelScope* around = co_await current_scope();
  std::optional<Error> failure;
  try {
    const Duration patience =
        std::max(state_.deadline - state_.engine.now(), Duration::zero()) + kVerdictTime;
    Task<> joining = join_through(rank_0);
    Task<> timed = with_deadline(patience, std::move(joining));
    co_await timed;
  } catch (const Error& error) {
    failure = error;
    const bool is_cancelled = around != nullptr && around->is_cancelled();
    if (error.kind() == ErrorKind::DeadlineExceeded && !is_cancelled)
      failure = about_rank_0(
          ErrorKind::PeerSilent,
          fmt::format("{} at {} did not say who is missing, {} after this process (rank {}) began to "
                      "join: it hangs, or the network between us does",
                      "rank 0", state_.where, state_.elapsed(), state_.options.rank));
    const Error told = is_introduced_ ? *failure : from_host(state_, *failure);
    if (!is_sent_away_) rank_0.try_send(encode_refusal(told, state_.options.rank));
  }
  if (std::exchange(is_sent_away_, false)) co_return false;
  if (failure) throw Error(*failure);
  const bool is_control = ControlMesh::is_served_by_joining(state_, 0);
  if (is_control) membership_.control[0] = std::move(rank_0);
  co_return true;
}

Task<> Member::join_through(Socket& rank_0) {
  rank_0.set_no_delay();
  if (state_.options.fault) throw Error(*state_.options.fault);
  if (!state_.control_listener.is_open()) state_.listen(own_address(state_, rank_0));
  const Duration patience = state_.deadline - state_.engine.now();
  const JoinFrameBytes introduction = encode_introduction(membership_.self(), patience);
  try {
    co_await rank_0.send(introduction);
    is_introduced_ = true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::SystemError) throw;  // it may have said why before it hung up
  }
  co_await hear_table(rank_0);
  co_await when_all(connect(rank_0), hear_go(rank_0));
}

Task<> Member::receive(Socket& rank_0, std::span<std::byte> bytes) {
  std::string end = "the connection ended";
  try {
    const bool came = co_await rank_0.receive(bytes);
    if (came) co_return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::SystemError && error.kind() != ErrorKind::LinkFault) throw;
    end = error.message();
  }
  throw about_rank_0(
      ErrorKind::PeerDied,
      fmt::format("rank 0 at {} died while rank {} was joining ({}); see what it printed, then start "
                  "all ranks again",
                  state_.where, state_.options.rank, end));
}

/// Throws the cause, if rank 0 sends one instead of what is expected.
Task<JoinFrame> Member::hear(Socket& rank_0) {
  JoinFrameBytes bytes{};
  co_await receive(rank_0, bytes);
  const JoinFrame frame = decode_frame(bytes, fmt::format("rank 0 at {}", state_.where));
  if (frame.refusal) throw Error(*frame.refusal);
  if (frame.kind == JoinFrame::Kind::complete) {
    is_sent_away_ = true;
    sent_away_ = taken_by(state_, frame.text);
    throw Error(*sent_away_);
  }
  co_return frame;
}

Task<> Member::hear_table(Socket& rank_0) {
  const JoinFrame head = co_await hear(rank_0);
  const std::string who = fmt::format("rank 0 at {}", state_.where);
  const bool is_whole = head.kind == JoinFrame::Kind::table;
  if (!is_whole && head.kind != JoinFrame::Kind::neighbours)
    throw about_rank_0(ErrorKind::ProtocolError,
                       fmt::format("{} sent '{}' before the table", who, to_string(head.kind)));
  const bool is_part = head.links != ControlLinks::all && head.records < membership_.size;
  if (!is_whole && !is_part)
    throw about_rank_0(ErrorKind::ProtocolError, fmt::format("{} tells of {} neighbours, of {} ranks", who,
                                                             head.records, membership_.size));
  state_.links = head.links;
  state_.neighbours.clear();
  // Our own size, which the handshake saw to, or less.
  std::vector<std::byte> records((is_whole ? membership_.size : head.records) * kPeerRecordBytes);
  co_await receive(rank_0, records);
  if (!is_whole) {
    take_neighbours(records, rank_0);
    co_return;
  }
  take_table(records, rank_0, 0);
  if (head.links == ControlLinks::all) co_return;
  state_.neighbours = ControlGraph::of(membership_.peers).neighbours_of(membership_.rank);
  table_ = std::move(records);
}

/// What a neighbour passes on says of those who are known already what rank 0 has said.
void Member::take_table(std::span<const std::byte> records, const Socket& rank_0, Rank from) {
  const std::string who =
      from == 0 ? fmt::format("rank 0 at {}", state_.where) : membership_.peers[from].describe();
  const Address near = rank_0.local_address();
  for (Rank rank = 0; rank < membership_.size; ++rank) {
    PeerInfo info = record_at(records, rank, who);
    const bool is_known = rank == membership_.rank || std::ranges::binary_search(state_.neighbours, rank);
    if (info.rank != rank || (is_known && info.incarnation != membership_.peers[rank].incarnation))
      throw Error(ErrorKind::ProtocolError,
                  fmt::format("{} sent {} where rank {} belongs in the table", who, info.describe(), rank))
          .with_culprit(from);
    info.data_address = route::on_link_of(info.data_address, near);
    if (rank != membership_.rank) membership_.peers[rank] = std::move(info);
  }
  advertise_rank_0(rank_0);
}

void Member::take_neighbours(std::span<const std::byte> records, const Socket& rank_0) {
  const std::string who = fmt::format("rank 0 at {}", state_.where);
  const Address near = rank_0.local_address();
  for (Rank index = 0; index < records.size() / kPeerRecordBytes; ++index) {
    PeerInfo info = record_at(records, index, who);
    const bool is_next = state_.neighbours.empty() || info.rank > state_.neighbours.back();
    if (!is_next || info.rank >= membership_.size || info.rank == membership_.rank)
      throw about_rank_0(ErrorKind::ProtocolError, fmt::format("{} sent {} among the neighbours of rank {}",
                                                               who, info.describe(), membership_.rank));
    info.data_address = route::on_link_of(info.data_address, near);
    state_.neighbours.push_back(info.rank);
    membership_.peers[info.rank] = std::move(info);
  }
  const std::vector<Rank> around = ControlGraph::around(membership_.rank, membership_.size);
  if (!std::ranges::includes(state_.neighbours, around))
    throw about_rank_0(ErrorKind::ProtocolError,
                       fmt::format("{} told rank {} of {} neighbours, and not of all", who, membership_.rank,
                                   state_.neighbours.size()));
  advertise_rank_0(rank_0);
}

/// Rank 0 may listen on all interfaces, and cannot know by which of its addresses this host reaches it.
void Member::advertise_rank_0(const Socket& rank_0) {
  Address& address = membership_.peers[0].data_address;
  if (!state_.meets_by_tcp() || address.size_bytes() == 0) return;
  const std::string text = address.to_string();
  const bool is_wildcard = text.starts_with("0.0.0.0:") || text.starts_with("[::]:");
  if (!is_wildcard) return;
  const std::string reached = rank_0.remote_address().to_string();
  address = Address::parse(reached.substr(0, reached.rfind(':')) + text.substr(text.rfind(':')));
}

Task<> Member::connect(Socket& rank_0) {
  ControlMesh mesh(state_, std::move(table_),
                   [&](std::span<const std::byte> records, Rank from) { take_table(records, rank_0, from); });
  {
    const WaitingReport report(state_, mesh, rank_0);
    co_await mesh.connect();
  }
  const JoinFrameBytes ready = encode_signal(JoinFrame::Kind::ready);
  co_await rank_0.send(ready);
}

Task<> Member::hear_go(Socket& rank_0) {
  const JoinFrame frame = co_await hear(rank_0);
  if (frame.kind != JoinFrame::Kind::go)
    throw about_rank_0(ErrorKind::ProtocolError, fmt::format("rank 0 at {} sent '{}' where 'go' belongs",
                                                             state_.where, to_string(frame.kind)));
}

}  // namespace cohort
