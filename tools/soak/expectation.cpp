// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/expectation.h>

#include <algorithm>

namespace cohort::soak {
namespace {

using Kind = ErrorKind;

/// Who receives that in vain names nobody: any rank could have sent it.
bool sends_to_anybody(Rank sender, const CommunicatorPlan& plan) {
  return std::ranges::any_of(plan.messages, [sender](const MessagePlan& message) {
    return message.is_for_anybody && message.from == sender;
  });
}

Expectation of_death(const world::DeadProcess& dead, const CommunicatorPlan& plan) {
  if (dead.is_silent)
    return {.kinds = {Kind::DeadlineExceeded},
            .kinds_of_joining = {Kind::PeerSilent, Kind::MissingRanks, Kind::LinkFault},
            .culprits = {dead.process},
            .may_name_nobody = sends_to_anybody(dead.process, plan) ? Expectation::NamesNobody::receiving
                                                                    : Expectation::NamesNobody::never,
            .felt_where = {dead.process}};
  return {.kinds = {Kind::PeerDied},
          .kinds_of_joining = {Kind::MissingRanks, Kind::LinkFault},
          .culprits = {dead.process},
          .felt_where = {dead.process}};
}

/// The way back is open: what one end gives up for is heard of at the other.
Expectation of_lost_link(const world::LostLink& link) {
  return {.kinds = {Kind::DeadlineExceeded, Kind::LinkFault, Kind::PeerAborted},
          .kinds_of_joining = {Kind::PeerSilent, Kind::MissingRanks, Kind::PeerDied},
          .culprits = {link.from, link.to},
          .may_name_nobody = Expectation::NamesNobody::anywhere,
          .felt_where = {link.from, link.to}};
}

/// Where nobody is left to ask, the end of a control connection is a death; and who makes a group asks
/// nobody. Of ranks that join, one hears which pairs of them have not reached each other.
Expectation of_broken_link(const world::BrokenLink& link) {
  return {.kinds = {Kind::LinkFault, Kind::PeerDied},
          .kinds_of_joining = {Kind::MissingRanks},
          .culprits = {link.from, link.to},
          .may_name_nobody = Expectation::NamesNobody::joining,
          .felt_where = {link.from, link.to}};
}

/// A call that was cancelled while it waited for its turn was never made: the others see the next one. Of two
/// ranks that disagree neither is the odd one.
std::vector<Expectation> of_deed(const Deed& deed, Rank ranks) {
  std::vector<Expectation> expectations;
  const bool gives_up = deed.kind != Deed::Kind::differs;
  const bool may_disagree = deed.kind == Deed::Kind::differs || deed.kind == Deed::Kind::cancels;
  if (gives_up)
    expectations.push_back(
        {.kinds = {Kind::PeerAborted}, .kinds_of_joining = {}, .culprits = {deed.rank}, .felt_where = {}});
  if (!may_disagree) return expectations;
  Expectation& other = expectations.emplace_back();
  other.kinds = {Kind::Mismatch};
  other.culprits = {deed.rank};
  if (ranks == 2) other.culprits = {0, 1};
  return expectations;
}

/// Who only waits before a call goes on with everything else.
Expectation of_lateness(const Job& job) {
  Expectation expectation;
  expectation.kinds = {Kind::DeadlineExceeded};
  expectation.may_name_nobody = Expectation::NamesNobody::anywhere;
  for (const Lateness& late : job.late) {
    expectation.culprits.insert(late.rank);
    if (late.is_busy) expectation.felt_where.insert(late.rank);
  }
  return expectation;
}

}  // namespace

bool Expectation::explains_culprit(const Error& error, ErrorOf of) const {
  if (error.culprit()) return culprits.contains(*error.culprit());
  switch (may_name_nobody) {
    case NamesNobody::never: return false;
    case NamesNobody::joining: return of == ErrorOf::joining;
    case NamesNobody::receiving: return of != ErrorOf::group && error.kind() == Kind::DeadlineExceeded;
    case NamesNobody::anywhere: return true;
  }
  return false;
}

bool Expectation::is_felt_among(std::span<const Rank> members) const {
  const auto is_member = [&](Rank rank) { return std::ranges::find(members, rank) != members.end(); };
  return !felt_where.empty() && std::ranges::all_of(felt_where, is_member);
}

std::vector<Expectation> expectations_of(const Job& job, std::size_t communicator) {
  std::vector<Expectation> expectations;
  for (const auto& dead : job.world.dead)
    expectations.push_back(of_death(dead, job.communicators[communicator]));
  for (const auto& link : job.world.lost) expectations.push_back(of_lost_link(link));
  for (const auto& link : job.world.broken) expectations.push_back(of_broken_link(link));
  if (job.deed)
    for (Expectation& one : of_deed(*job.deed, job.ranks)) expectations.push_back(std::move(one));
  if (job.is_late_beyond_patience()) expectations.push_back(of_lateness(job));
  return expectations;
}

}  // namespace cohort::soak
