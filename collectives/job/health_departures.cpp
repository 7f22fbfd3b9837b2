// SPDX-License-Identifier: Apache-2.0
// What becomes of a communicator when a rank is gone: whether it left, died, or cannot be reached.
#include <cohort/collectives/job/health.h>

#include <cohort/collectives/job/listen_for.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace cohort {

Error Health::died(Rank peer) const {
  const Error error(ErrorKind::PeerDied,
                    fmt::format("{} ended without leaving the communicator, {}; look at its output and at "
                                "the kernel log, then start the job again",
                                membership_.peers[peer].describe(), current_operation()));
  return of_call(error.with_culprit(peer));
}

bool Health::hears_another_host() const noexcept {
  for (Rank rank = 0; rank < peers_.size(); ++rank)
    if (!membership_.shares_host(rank) && !peers_[rank].departed && control_.is_linked(rank) &&
        control_.silence(rank) == Duration::zero())
      return true;
  return false;
}

std::size_t Health::other_hosts() const {
  std::set<decltype(PeerInfo::host_id)> hosts;
  for (const PeerInfo& peer : membership_.peers) hosts.insert(peer.host_id);
  return hosts.size() - 1;
}

/// Both sides of a network that is cut say the same as far as they can know it.
Error Health::lost_host_of(Rank peer, bool hears_others) const {
  const std::string since =
      fmt::format("for {} s (COHORT_HOST_TIMEOUT)",
                  std::chrono::duration_cast<std::chrono::seconds>(membership_.host_timeout).count());
  const auto made = [&](ErrorKind kind, Rank culprit, const std::string& what) {
    return of_call(Error(kind, fmt::format("{}, {}", what, current_operation())).with_culprit(culprit));
  };
  if (hears_others)
    return made(
        ErrorKind::PeerDied, peer,
        fmt::format("nothing comes from the host of {} any more, {}: it lost its power or its network; "
                    "look at that host",
                    membership_.peers[peer].describe(), since));
  if (other_hosts() > 1)
    return made(ErrorKind::LinkFault, membership_.rank,
                fmt::format("nothing comes from any other host to that of {} any more, {}: it has lost its "
                            "network; look at it there",
                            membership_.self().describe(), since));
  const auto [lower, higher] = std::minmax(membership_.rank, peer);
  return made(
      ErrorKind::LinkFault, higher,
      fmt::format("nothing passes between the hosts of {} and {} any more, {}: one of them is down, or "
                  "the network between them; look at both",
                  membership_.peers[lower].describe(), membership_.peers[higher].describe(), since));
}

std::string Health::last_call_of(Rank departed) const {
  const std::uint64_t after = peers_[departed].departed_after;
  if (after == 0) return "joining";
  const HistoryEntry* const entry = entry_of(after);
  return entry == nullptr ? "an earlier collective" : fmt::format("collective #{}", entry->call);
}

Error Health::left_early(Rank peer) const {
  if (peers_[peer].is_gone) return gone(peer);
  const Error error(ErrorKind::PeerAborted,
                    fmt::format("{} left after {}, {}; all ranks must call the same number of collectives",
                                membership_.peers[peer].describe(), last_call_of(peer), current_operation()));
  return of_call(error.with_culprit(peer));
}

Error Health::gone(Rank peer) const {
  const Error error(
      ErrorKind::PeerDied,
      fmt::format("{} is not there any more, {}: it has ended or left, and the ranks that would know do not "
                  "say so; look at its output, then start the job again",
                  membership_.peers[peer].describe(), current_operation()));
  return of_call(error.with_culprit(peer));
}

void Health::on_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence) noexcept {
  unless_out_of_memory([&] { take_departure(peer, said_goodbye, after_sequence); });
}

void Health::take_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence) {
  PeerState& state = peers_[peer];
  state.departed = true;
  state.departure = ++departures_;
  state.departed_after = said_goodbye ? after_sequence : 0;
  state.is_gone = !said_goodbye && control_.has_refused(peer);
  if (state.is_gone) state.departed_after = std::max(state.last_seen, running_.sequence);
  if (is_leaving_ || is_failed()) return;
  if (state.is_gone) {  // no failure before somebody needs it
    if (on_goodbye_) on_goodbye_(peer);
  } else if (!said_goodbye && !membership_.shares_host(peer) && has_witness(peer)) {
    state.is_suspected = true;
    control_.broadcast(news(ControlMessage::Type::lost, peer));
    services_.spawn(resolve_departure(peer));
  } else if (!said_goodbye)
    fail(control_.has_lost_host(peer) ? lost_host_of(peer, false) : died(peer));
  else if (running_.is_running && running_.sequence > after_sequence)
    fail(left_early(peer));
  else if (on_goodbye_)
    on_goodbye_(peer);
}

ControlMessage Health::news(ControlMessage::Type type, Rank about) noexcept {
  ControlMessage message;
  message.type = type;
  message.culprit = about;
  return message;
}

bool Health::has_witness(Rank of) const noexcept {
  for (Rank rank = 0; rank < peers_.size(); ++rank)
    if (rank != membership_.rank && rank != of && !peers_[rank].departed) return true;
  return false;
}

void Health::take_news_of_peer(Rank from, const ControlMessage& message) {
  const Rank about = message.culprit;
  if (about >= peers_.size() || about == membership_.rank || about == from) return;
  if (message.type == ControlMessage::Type::alive) {
    peers_[about].is_alive_elsewhere = true;
    return;
  }
  peers_[about].is_lost_elsewhere = true;
  if (control_.is_linked(about)) services_.spawn(answer_later(from, about));
}

/// What is said to a host that is lost shows that it is: it does not come to be acknowledged.
Task<> Health::answer_later(Rank to, Rank about) {
  control_.send_directly(about, news(ControlMessage::Type::alive, about));
  co_await engine_.sleep_for(kNewsTime);
  const bool is_alive = !peers_[about].departed && control_.silence(about) < kNewsTime;
  if (is_alive) control_.send(to, news(ControlMessage::Type::alive, about));
}

/// A connection to another host ended without a goodbye. If the process is dead, everybody has lost it; who
/// still has it says that only the connection broke. Nobody answers: it is dead as far as we can tell.
Task<> Health::resolve_departure(Rank peer) {
  const PeerState& state = peers_[peer];
  const bool has_lost_host = control_.has_lost_host(peer);
  bool hears_others =
      !has_lost_host;  // since they were told of the loss: what has come there is acknowledged
  const auto is_known = [&] {
    hears_others = hears_others || hears_another_host();
    return is_failed() || (state.is_lost_elsewhere && hears_others) || state.is_alive_elsewhere ||
           !has_witness(peer);
  };
  co_await listen_for(engine_, kWitnessTime, is_known);
  if (is_leaving_) co_return;
  if (state.is_alive_elsewhere)
    fail(link_fault(peer, has_lost_host ? "nothing comes through it" : "the control connection ended"));
  else
    fail(has_lost_host ? lost_host_of(peer, hears_others) : died(peer));
}

}  // namespace cohort
