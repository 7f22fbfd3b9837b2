// SPDX-License-Identifier: Apache-2.0
// What rank 0 says while ranks join, and when not all have: a part of net/join/rendezvous.h.
#include <cohort/net/join/rendezvous.h>

#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace cohort {
namespace {

/// In one line.
constexpr std::size_t kMostNamed = 16;

}  // namespace

Task<> Rendezvous::report_progress() {
  for (;;) {
    co_await state_.engine.sleep_for(kReportInterval);
    if (failure_) co_return;
    if (phase_ == Phase::gathering) {
      log(LogLevel::warn, "joining '{}' at {}: after {}, {}", membership_.name, state_.where,
          state_.elapsed(), missing_and_present());
    } else {
      const auto [silent, reports] = unconnected();
      const std::string unheard =
          silent.empty() ? "" : fmt::format("nothing said by {}", list_of_ranks(silent));
      log(LogLevel::warn,
          "joining '{}': all {} ranks are here, but after {} not all have reached each other: {}{}{}",
          membership_.name, places_.size(), state_.elapsed(), unheard,
          unheard.empty() || reports.empty() ? "" : "; ", reports);
    }
  }
}

Error Rendezvous::deadline_error() const {
  const std::vector<Rank> absent = missing();
  if (!absent.empty()) {
    const Error error(ErrorKind::MissingRanks,
                      fmt::format("joining '{}' at {}: after {}, {}", membership_.name, state_.where,
                                  state_.elapsed(), missing_and_present()));
    return error.with_culprit(absent.front());
  }
  return connecting_deadline_error();
}

Rendezvous::Unconnected Rendezvous::unconnected() const {
  Unconnected found;
  std::size_t reports = 0;
  const auto report = [&](Rank rank, const std::string& waits_for) {
    if (++reports > kMostNamed) return;
    found.reports += fmt::format("{}rank {} waits for {}", reports == 1 ? "" : ", ", rank, waits_for);
  };
  if (!mesh_->missing().empty()) report(0, list_of_ranks(mesh_->missing()));
  for (Rank rank = 1; rank < places_.size(); ++rank) {
    const Place& place = places_[rank];
    if (place.is_ready) continue;
    if (place.waits_for.empty())
      found.silent.push_back(rank);
    else
      report(rank, place.waits_for);
  }
  if (reports > kMostNamed) found.reports += fmt::format(", and {} more wait", reports - kMostNamed);
  return found;
}

/// Whoever hangs has not even said for whom it waits.
Error Rendezvous::connecting_deadline_error() const {
  const auto [silent, reports] = unconnected();
  const std::string head = fmt::format("joining '{}': all {} ranks came, but after {} ", membership_.name,
                                       places_.size(), state_.elapsed());
  if (silent.empty())
    return Error(ErrorKind::LinkFault,
                 fmt::format("{}not all had reached each other: {}; a firewall is between them, or they "
                             "do not share the network by which they reached rank 0{}",
                             head, reports, advice_on_hosts()));
  return Error(ErrorKind::PeerSilent, fmt::format("{}rank{} {} did not answer: stopped, or hung{}{}", head,
                                                  silent.size() == 1 ? "" : "s", list_of_ranks(silent),
                                                  reports.empty() ? "" : "; ", reports))
      .with_culprit(silent.front());
}

/// Machines that were cloned or restored from one image may have what tells hosts apart in common.
std::string Rendezvous::advice_on_hosts() const {
  for (Rank rank = 1; rank < places_.size(); ++rank) {
    if (places_[rank].is_ready) continue;
    std::vector<Rank> of_host;
    for (const PeerInfo& peer : membership_.peers)
      if (peer.host_id == membership_.peers[rank].host_id) of_host.push_back(peer.rank);
    if (of_host.size() > 1)
      return fmt::format(
          "; if ranks {}, which take each other for ranks of one host, are on several machines of one image, "
          "give each machine a COHORT_MACHINE_ID of its own",
          list_of_ranks(of_host));
  }
  return "";
}

std::vector<Rank> Rendezvous::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 1; rank < places_.size(); ++rank)
    if (!places_[rank].is_taken) ranks.push_back(rank);
  return ranks;
}

std::string Rendezvous::missing_and_present() const {
  const std::vector<Rank> absent = missing();
  std::string present;
  std::size_t named = 0;
  for (Rank rank = 0; rank < places_.size(); ++rank) {
    if (!places_[rank].is_taken) continue;
    if (++named > kMostNamed) break;
    present += (present.empty() ? "" : ", ") + membership_.peers[rank].describe();
  }
  return fmt::format(
      "rank{} {} of {} {} missing: start {} with this address, or look at what {} printed{}; here: {}{}",
      absent.size() == 1 ? "" : "s", list_of_ranks(absent), places_.size(), absent.size() == 1 ? "is" : "are",
      absent.size() == 1 ? "it" : "them", absent.size() == 1 ? "it" : "they", notes_.text(), present,
      named > kMostNamed ? ", and more" : "");
}

void Rendezvous::note(std::string text, bool has_proven_itself) {
  log(LogLevel::info, "joining '{}': {}", membership_.name, text);
  notes_.add(std::move(text), has_proven_itself);
}

}  // namespace cohort
