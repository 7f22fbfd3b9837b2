// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/health.h>

#include <cohort/collectives/job/listen_for.h>
#include <cohort/engine/failure.h>

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace cohort {
namespace {

/// Who gives up first asks who is to blame, and may be stopped meanwhile.
constexpr Duration kReasonTime = std::chrono::minutes(1);
/// Where an answer goes to all, it is one for those who ask at about the same time.
constexpr Duration kAnswerInterval = std::chrono::milliseconds(20);
/// Collectives that these may ask about.
constexpr std::size_t kMostAskedAbout = 8;

}  // namespace

std::string advice_on(ErrorKind own_fault, const PeerInfo& at) {
  switch (own_fault) {
    case ErrorKind::ResourceLimit:
      return fmt::format("look at what {} is short of, then start the job again", at.describe());
    case ErrorKind::Unsupported:
      return fmt::format("choose another COHORT_TRANSPORT, or let the host of {} have what it lacks",
                         at.describe());
    case ErrorKind::InvalidArgument:
      return fmt::format("give {} a buffer of its own, as large as it says", at.describe());
    case ErrorKind::Internal:
      return fmt::format("this is a bug: report it, with what {} printed", at.describe());
    default:
      return fmt::format("look at the host and the network of {}, then start the job again", at.describe());
  }
}

Health::Health(Engine& engine, const Membership& membership, ControlChannel& control,
               const RunningOperation& running, const RunningCall& call, TaskScope& services,
               const AlgorithmTable& algorithms, OnFailure on_failure, IsCutOff is_cut_off)
    : engine_(engine),
      membership_(membership),
      control_(control),
      running_(running),
      call_(call),
      services_(services),
      algorithms_(algorithms),
      on_failure_(std::move(on_failure)),
      is_cut_off_(std::move(is_cut_off)),
      no_memory_(Error(ErrorKind::ResourceLimit,
                       fmt::format("{} has no memory to go on with '{}'; {}", membership.self().describe(),
                                   membership.name, advice_on(ErrorKind::ResourceLimit, membership.self())))
                     .with_culprit(membership.rank)),
      peers_(membership.size) {
  table_.reserve(membership.size);
}

bool Health::begin(std::uint64_t sequence, const Signature& signature) noexcept {
  history_[sequence % kHistory] = {sequence, call_.number(), signature};
  for (Rank peer = 0; peer < peers_.size() && !is_failed(); ++peer) {
    const PeerState& state = peers_[peer];
    if (left_before(peer, sequence)) unless_out_of_memory([&] { fail(left_early(peer)); });
    if (state.last_seen == sequence && !(state.last_signature == signature))
      report_mismatch(peer, sequence, state.last_signature);
  }
  return !is_failed();
}

void Health::check_departures(std::uint64_t sequence) noexcept {
  for (Rank peer = 0; peer < peers_.size() && !is_failed(); ++peer)
    if (left_before(peer, sequence))
      unless_out_of_memory([&] { fail(left_early(peer).with_sequence(call_.number())); });
}

bool Health::has_anybody_left_before(std::uint64_t sequence) const noexcept {
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (left_before(peer, sequence)) return true;
  return false;
}

bool Health::have_all_come(std::uint64_t sequence) const noexcept {
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (peer != membership_.rank && !peers_[peer].departed && last_seen(peer) < sequence) return false;
  return true;
}

bool Health::have_all_answered(std::uint64_t sequence) const noexcept {
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (peer != membership_.rank && is_silent(peer) && last_seen(peer) < sequence) return false;
  return true;
}

std::uint64_t Health::lowest_seen() const noexcept {
  std::uint64_t lowest = running_.sequence;
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (peer != membership_.rank) lowest = std::min(lowest, last_seen(peer));
  return lowest;
}

Error Health::cause_of(const std::exception_ptr& failure) const noexcept {
  const std::optional<Error> own = error_in(failure);
  const bool gave_up = cause_->kind() == ErrorKind::PeerAborted && cause_->culprit() == membership_.rank;
  return own && own->kind() == ErrorKind::Cancelled && gave_up ? *own : *cause_;
}

const Health::HistoryEntry* Health::entry_of(std::uint64_t sequence) const noexcept {
  const HistoryEntry& entry = history_[sequence % kHistory];
  return entry.sequence == sequence && sequence != 0 ? &entry : nullptr;
}

const Signature* Health::remembered(std::uint64_t sequence) const noexcept {
  const HistoryEntry* const entry = entry_of(sequence);
  return entry == nullptr ? nullptr : &entry->signature;
}

/// For those who wait for this rank.
std::string Health::whereabouts() const noexcept {
  try {
    if (is_joining_) return "";
    if (is_in_call()) return call_.text();
    return other_work_ ? other_work_(OfWork::also_failed).value_or("") : "";
  } catch (const std::bad_alloc&) {
    return "";
  }
}

std::string Health::whereabouts_of(Rank peer) const {
  if (is_silent(peer) && engine_.now() - asked_at_ >= kNewsTime) {
    const Duration silence = control_.silence(peer);
    if (silence > Duration::zero())
      return fmt::format("nothing has come from its host for {:.1f} s",
                         std::chrono::duration<double>(silence).count());
  }
  if (is_joining(peer)) return "it has not joined yet";
  return peers_[peer].is_in.empty() ? "" : fmt::format("it is in {}", peers_[peer].is_in);
}

ControlMessage Health::status(ControlMessage::Type type, std::uint64_t sequence) const noexcept {
  ControlMessage message;
  message.type = type;
  message.sequence = sequence;
  if (const Signature* signature = remembered(sequence)) message.signature = *signature;
  message.set_text(whereabouts());
  return message;
}

void Health::report_stall() noexcept {
  control_.tell_neighbours(status(ControlMessage::Type::status, running_.sequence));
}

void Health::ask_around() noexcept {
  const TimePoint now = engine_.now();
  const bool is_asked = asked_all_about_ == running_.sequence && now - asked_at_ < kNewsTime;
  if (is_passed_on() && is_asked) return;
  asked_all_about_ = running_.sequence;
  asked_at_ = now;
  const ControlMessage question = status(ControlMessage::Type::query, own_sequence());
  if (is_passed_on()) control_.broadcast(question);
  for (Rank peer = 0; peer < peers_.size(); ++peer) {
    PeerState& state = peers_[peer];
    state.has_answered = false;
    state.is_in.clear();
    if (peer == membership_.rank || is_passed_on() || state.asked == running_.sequence) continue;
    if (control_.send(peer, question)) state.asked = running_.sequence;
  }
}

void Health::ask_directly(Rank peer) noexcept {
  if (is_passed_on() && !is_failed())
    control_.send_directly(peer, status(ControlMessage::Type::query, own_sequence()));
}

/// Of what was asked about, if this rank has come to it, else of what it came to last. Who is between two
/// messages, or two calls, is waited for and does not wait. Who joins does, whatever it measures meanwhile.
ControlMessage Health::answer_about(std::uint64_t sequence) const noexcept {
  const std::uint64_t of = remembered(sequence) == nullptr ? own_sequence() : sequence;
  const bool waits = is_joining_ || (running_.is_running && !call_.is_between_messages());
  return status(waits ? ControlMessage::Type::status : ControlMessage::Type::answer, of);
}

/// A question that was passed on is answered to all, who ask the same most likely, after a moment in which
/// they do.
void Health::answer(Rank to, const ControlMessage& query) noexcept {
  if (!query.is_passed_on()) {
    control_.send_directly(to, answer_about(query.sequence));
    return;
  }
  const bool is_asked = std::ranges::find(asked_about_, query.sequence) != asked_about_.end();
  if (is_asked || asked_about_.size() == kMostAskedAbout) return;
  unless_out_of_memory([&] {
    asked_about_.push_back(query.sequence);
    if (asked_about_.size() == 1) services_.spawn(answer_all());
  });
}

Task<> Health::answer_all() {
  co_await engine_.sleep_for(kAnswerInterval);
  const std::vector<std::uint64_t> asked_about = std::exchange(asked_about_, {});
  for (const std::uint64_t sequence : asked_about) control_.broadcast(answer_about(sequence));
}

void Health::report_mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept {
  unless_out_of_memory([&] { find_disagreement(peer, sequence, theirs); });
}

void Health::find_disagreement(Rank peer, std::uint64_t sequence, const Signature& theirs) {
  if (is_failed() || std::exchange(is_resolving_, true)) return;
  resolving_sequence_ = sequence;
  table_.clear();
  if (const Signature* mine = remembered(sequence)) enter(membership_.rank, *mine);
  enter(peer, theirs);
  for (Rank other = 0; other < peers_.size(); ++other)  // who has left cannot be asked
    if (peers_[other].last_seen == sequence) enter(other, peers_[other].last_signature);
  control_.broadcast(status(ControlMessage::Type::query, sequence));
  services_.spawn(resolve_mismatch(sequence));
}

bool Health::is_entered(Rank rank) const noexcept {
  return std::ranges::any_of(table_, [rank](const SignatureOfRank& entry) { return entry.rank == rank; });
}

void Health::enter(Rank rank, const Signature& signature) noexcept {
  if (!is_entered(rank)) table_.push_back({rank, signature});
}

Task<> Health::resolve_mismatch(std::uint64_t sequence) {
  const auto is_known = [this] { return table_.size() == membership_.size || is_failed(); };
  co_await listen_for(engine_, kQuestionTime, is_known);
  std::sort(table_.begin(), table_.end(),
            [](const SignatureOfRank& a, const SignatureOfRank& b) { return a.rank < b.rank; });
  const Disagreement verdict = judge(table_, algorithms_, membership_.size);
  const HistoryEntry* const entry = entry_of(sequence);
  const bool is_later_part = call_.is_in_later_message() && sequence == running_.sequence;
  const std::uint64_t number = entry == nullptr ? call_.number() : entry->call;
  const std::string culprit = membership_.peers[verdict.culprit].describe();
  const std::string where = verdict.opponent
                                ? fmt::format("{} and {}: which of them is wrong, no majority tells",
                                              membership_.peers[*verdict.opponent].describe(), culprit)
                                : culprit;
  const std::string what = fmt::format(
      "collective #{}{} on '{}': {}; every rank must call the same collective with the same arguments (look "
      "at {})",
      number, is_later_part ? call_.part() : "", membership_.name, verdict.text, where);
  const Error error = Error(ErrorKind::Mismatch, what).with_culprit(verdict.culprit).with_sequence(number);
  fail(verdict.is_of_bytes ? error.with_bytes() : error);
}

void Health::take_status(Rank from, const ControlMessage& message) noexcept {
  PeerState& state = peers_[from];
  state.has_answered = true;
  state.is_waiting = message.type != ControlMessage::Type::answer;  // who asks waits, too
  state.asked.reset();
  note_whereabouts(state, message);
  if (message.type == ControlMessage::Type::status)
    state.stalled_in = std::max(state.stalled_in.value_or(0), message.sequence);
  if (message.type == ControlMessage::Type::query) answer(from, message);
  take_signature(from, message);
}

void Health::note_whereabouts(PeerState& state, const ControlMessage& message) noexcept {
  try {
    state.is_in = message.text_for_people();
  } catch (const std::bad_alloc&) {
    state.is_in.clear();
  }
}

void Health::take_signature(Rank from, const ControlMessage& message) noexcept {
  PeerState& state = peers_[from];
  if (is_resolving_ && message.sequence == resolving_sequence_) enter(from, message.signature);
  if (message.sequence >= state.last_seen) {
    state.last_seen = message.sequence;
    state.last_signature = message.signature;
  }
  if (ran_another(message.sequence, message.signature))
    report_mismatch(from, message.sequence, message.signature);
}

void Health::on_control(Rank from, const ControlMessage& message) noexcept {
  unless_out_of_memory([&] { take_control(from, message); });
}

void Health::take_control(Rank from, const ControlMessage& message) {
  switch (message.type) {
    case ControlMessage::Type::status:
    case ControlMessage::Type::query:
    case ControlMessage::Type::answer: take_status(from, message); return;
    case ControlMessage::Type::revoke:
      if (message.is_passed_on()) return fail_as_heard(message.cause());
      return fail(message.cause());
    case ControlMessage::Type::lost:
    case ControlMessage::Type::alive: take_news_of_peer(from, message); return;
    case ControlMessage::Type::goodbye: take_signature(from, message); return;
    case ControlMessage::Type::gives_up: peers_[from].gives_up = true; return;
    case ControlMessage::Type::hello:
    case ControlMessage::Type::invite:
    case ControlMessage::Type::accept:
    case ControlMessage::Type::agree: return;
  }
}

std::string Health::current_operation() const {
  if (is_joining_) return fmt::format("while '{}' was being made", membership_.name);
  const std::optional<std::string> other =
      is_in_call() || !other_work_ ? std::nullopt : other_work_(OfWork::that_waits);
  if (other) return fmt::format("during {} on '{}'", *other, membership_.name);
  if (!is_in_call()) return fmt::format("between collectives on '{}'", membership_.name);
  return fmt::format("during {} on '{}'", call_.text(), membership_.name);
}

Error Health::of_call(const Error& error) const {
  return is_in_call() ? error.with_sequence(call_.number()) : error;
}

Error Health::link_fault(Rank peer, std::string_view why) const {
  const auto [lower, higher] = std::minmax(membership_.rank, peer);
  const Error error(
      ErrorKind::LinkFault,
      fmt::format("the connection between {} and {} broke, {}, though both processes live ({}); check "
                  "the network between the two hosts",
                  membership_.peers[lower].describe(), membership_.peers[higher].describe(),
                  current_operation(), why));
  return of_call(error.with_culprit(higher));  // neither is known to be at fault: both ends name the same
}

/// Named by what it was out of: that has nothing to do with who is at the other end.
Error Health::own_fault(Rank peer, const Error& error) const {
  const Error own = blamed_on(error, membership_.rank, peer);
  const std::string what =
      fmt::format("{} cannot go on with its connection to {}, {}: {}; {}", membership_.self().describe(),
                  membership_.peers[peer].describe(), current_operation(), error.message(),
                  advice_on(error.kind(), membership_.peers[own.culprit().value_or(membership_.rank)]));
  return of_call(own.with_message(what));
}

void Health::report_link_fault(Rank peer, const Error& error) noexcept {
  if (is_failed() || is_leaving_) return;
  const bool is_own = is_own_fault(error.kind()) && error.culprit() != peer;
  const bool is_peers = is_own_fault(error.kind()) && !is_own;  // a buffer that it gave
  unless_out_of_memory([&] {
    if (error.kind() == ErrorKind::ProtocolError || is_peers)
      fail(of_call(error));
    else if (is_own)
      fail(own_fault(peer, error));
    else
      services_.spawn(resolve_link_fault(peer, error));
  });
}

void Health::tell_giving_up(Rank peer) noexcept {
  if (is_failed()) return;  // it has been told why
  ControlMessage message;
  message.type = ControlMessage::Type::gives_up;
  control_.send(peer, message);
}

void Health::tell_giving_up() noexcept {
  if (is_passed_on() && !is_failed()) {
    ControlMessage message;
    message.type = ControlMessage::Type::gives_up;
    return control_.broadcast(message);
  }
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (peer != membership_.rank) tell_giving_up(peer);
}

/// A process that is killed closes its links first, and on a busy host takes its time to end; who gives up
/// tells why when it has asked who is to blame.
Task<> Health::hear_why_link_broke(Rank peer) {
  const PeerState& state = peers_[peer];
  control_.reach(peer);  // those who would tell of its end may compute
  const auto is_known = [&] { return is_failed() || state.departed; };
  const auto is_news = [&] { return is_known() || state.gives_up; };
  co_await listen_for(engine_, kWitnessTime, is_news);
  if (state.gives_up) co_await listen_for(engine_, kReasonTime, is_known);
}

Task<> Health::resolve_link_fault(Rank peer, Error error) {
  const PeerState& state = peers_[peer];
  co_await hear_why_link_broke(peer);
  if (state.departed) co_await look_for_lost_data(peer);
  const bool is_explained = state.departed && (state.is_suspected || !is_cut_off_(peer));
  if (is_failed() || is_leaving_ || is_explained) co_return;
  fail(state.is_gone ? gone(peer) : link_fault(peer, error.message()));
}

Task<> Health::settle_link_fault(Rank peer, Error error) {
  const PeerState& state = peers_[peer];
  co_await hear_why_link_broke(peer);
  const auto is_settled = [&] { return is_failed() || !state.is_suspected; };
  co_await listen_for(engine_, kWitnessTime, is_settled);
  if (is_failed() || is_leaving_) co_return;
  const bool was_missing = left_before(peer, running_.sequence);  // else the link broke before it left
  if (was_missing || state.is_gone)
    fail(left_early(peer));
  else
    fail(link_fault(peer, error.message()));
}

/// Until the running collective is over, or waits for what a peer that left in good order had sent before.
Task<> Health::look_for_lost_data(Rank peer) {
  const std::uint64_t sequence = running_.sequence;
  const auto is_open = [&] {
    const bool is_same = running_.is_running && running_.sequence == sequence;
    return is_same && !is_failed() && !is_leaving_ && !peers_[peer].is_suspected && !is_cut_off_(peer);
  };
  while (is_open()) co_await engine_.sleep_for(kLookInterval);
}

/// Whoever hears of the cause passes it on, once: this rank may leave before the one who found it was heard
/// by all, and its leaving must not be taken for the cause.
void Health::fail(const Error& cause) noexcept {
  if (is_failed()) return;
  cause_ = cause;
  control_.broadcast(ControlMessage::revoke(cause, membership_.rank));
  on_failure_(cause);
}

void Health::fail_as_heard(const Error& cause) noexcept {
  if (is_failed()) return;
  cause_ = cause;
  on_failure_(cause);
}

}  // namespace cohort
