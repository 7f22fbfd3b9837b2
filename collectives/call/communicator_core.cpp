// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/communicator_core.h>

#include <cohort/collectives/call/establish.h>
#include <cohort/collectives/selection/calibration.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/system/descriptor_limit.h>
#include <cohort/net/transports.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr std::size_t kDefaultBufferBytes = std::size_t{4} << 20;
constexpr std::size_t kLeastBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kDefaultHeapBytes = std::size_t{4} << 30;
constexpr Duration kDefaultTimeout = std::chrono::minutes(10);

/// Calls in a row that complete without suspending look now and then whether their turn of the loop is over:
/// a call itself takes as long as to copy so many bytes, and each byte of a message is moved twice. Looking
/// costs 25 ns, so the smallest calls, 0.2 us each, do it every 32nd time.
constexpr std::size_t kCallBytes = std::size_t{4} << 10;

std::size_t buffer_bytes_of(const CommunicatorOptions& options) {
  const std::size_t bytes = options.buffer_bytes != 0 ? options.buffer_bytes : kDefaultBufferBytes;
  if (bytes < kLeastBufferBytes)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("a CCL buffer of {} bytes is too small; COHORT_BUFFSIZE must be "
                            "at least {} (64K)",
                            bytes, kLeastBufferBytes));
  return bytes;
}

PeerTransports::Choice transports_of(const CommunicatorOptions& options) {
  return {.kinds = options.transports.empty() ? transports() : options.transports,
          .asked = options.transport,
          .buffer_bytes = buffer_bytes_of(options),
          .heap_bytes = options.heap_bytes != 0 ? options.heap_bytes : kDefaultHeapBytes,
          .is_isolated = options.is_isolated};
}

AlgorithmTable table_of(const CommunicatorOptions& options) {
  AlgorithmTable table;
  for (const AnyAlgorithm& algorithm : options.algorithms) table.add(algorithm);
  return table;
}

}  // namespace

void CommunicatorCore::check(const CommunicatorOptions& options) {
  (void)ForcedAlgorithms(options.algorithm, table_of(options));
  transports_of(options).check();
}

CommunicatorCore::CommunicatorCore(Engine& engine, std::unique_ptr<Membership>& membership,
                                   const CommunicatorOptions& options)
    : engine_(engine),
      membership_(*membership),
      algorithms_(table_of(options)),
      timeout_(options.timeout > Duration::zero() ? options.timeout : kDefaultTimeout),
      forced_(options.algorithm, algorithms_),
      copy_threads_(options.copy_threads),
      pull_from_bytes_(options.pull_from_bytes),
      control_(engine, membership_, health_),
      health_(
          engine, membership_, control_, running_, services_, algorithms_,
          [this](const Error& cause) {
            if (operation_scope_ != nullptr) operation_scope_->cancel(cause);
            resources_.shutdown();
          },
          [this](Rank peer) { return resources_.is_cut_off(peer); }),
      resources_(engine, membership_, *this, transports_of(options)),
      exec_(engine, membership_, *this, resources_),
      watchdog_(engine, health_, [this] { return deadline_exceeded(); }) {
  services_.set_on_failure([this](const std::exception_ptr& failure) { service_failed(failure); });
  resources_.bind(running_.windows);
  reach_ = {.is_host_wide = resources_.is_host_wide(),
            .ranks = membership_.size,
            .buffer_bytes = resources_.buffer_bytes()};
  const Resources::HeapPlace heap = resources_.heap();
  heap_ = SharedHeap(heap.memory, heap.offset, heap.bytes, options.uses_huge_pages);
  host::HostGroup* const group = resources_.group();
  if (group != nullptr && group->members().size() > 1)
    meeting_.emplace(engine, membership_, *group, *this, running_, exec_, heap_, reach_);
  owned_membership_ = std::move(membership);
}

CommunicatorCore::~CommunicatorCore() {
  COHORT_ASSERT(!turn_.is_locked(), "communicator '{}' ended with a collective running", membership_.name);
}

Task<> CommunicatorCore::establish() {
  const double per_core = membership_.engines_per_core();
  const std::optional<LinkSpeed> speed =
      co_await exchange_hellos(engine_, membership_, control_, resources_, per_core);
  if (speed) reach_.model = CostModel(*speed, membership_.size);
  control_.start(services_);
  resources_.start(services_);

  bool is_one_process = !resources_.is_isolated();
  for (Rank peer = 0; peer < membership_.size; ++peer)
    is_one_process = is_one_process && membership_.shares_process(peer);
  if (meeting_ && is_one_process) meeting_->set_one_process();
  if (per_core > 1) engine_.set_crowded(true);
  engine_.expect_engines_per_core(per_core);
  exec_.workers().allow(copy_threads_ ? *copy_threads_ : CopyWorkers::most_for(per_core));
  if (meeting_ && reach_.is_host_wide) co_await calibrate();
}

/// What the ranks of a host measure together, so that what follows is chosen by figures of this host. Leaves
/// no trace in the numbers of calls: the first one of the user is #1.
Task<> CommunicatorCore::calibrate() {
  CancelScope* around = co_await current_scope();
  CancelScope scope(around);
  operation_scope_ = &scope;
  if (health_.is_failed()) scope.cancel(health_.cause());
  const auto run_one = [this](const Call& call) { return run_unnumbered(call); };
  Calibration calibration(engine_, membership_, algorithms_, run_one);
  std::exception_ptr failure;
  try {
    Task<> agreeing = with_scope(
        scope, calibration.agree_what_to_measure(membership_.engines_per_core(), pull_from_bytes_));
    co_await agreeing;
    Task<> measuring_slots = with_scope(scope, calibration.measure_slots(reach_.slots));
    co_await measuring_slots;
    const bool reads_memory = resources_.transports().common_capabilities().reads_memory;
    if (reads_memory && !meeting_->is_one_process()) {  // in one process everything is mapped
      Task<> measuring_pull = with_scope(scope, calibration.measure_pull(reach_.pull));
      co_await measuring_pull;
    }
    Task<> all_are_through = with_scope(scope, exec_.phase());
    co_await all_are_through;
    resources_.group()->forget_arrivals();
    Task<> all_have_forgotten = with_scope(scope, exec_.phase());
    co_await all_have_forgotten;
    running_.sequence = 0;
  } catch (...) {
    failure = std::current_exception();
  }
  operation_scope_ = nullptr;
  running_.is_running = false;
  if (!failure) co_return;
  co_await withdraw();
  std::rethrow_exception(failure);
}

/// One call outside the numbered sequence of the user's: no watchdog, since the joining has its deadline.
Task<> CommunicatorCore::run_unnumbered(const Call& call) {
  prepare(call);
  const bool is_done = may_complete_here(call) && complete_here(call);
  if (!is_done) co_await orchestrate(call);
  running_.is_running = false;
}

Task<> CommunicatorCore::close() {
  if (std::exchange(is_closed_, true)) co_return;
  health_.leave();
  ControlMessage goodbye;
  goodbye.type = ControlMessage::Type::goodbye;
  goodbye.sequence = running_.sequence;
  control_.broadcast(goodbye);
  services_.cancel();
  resources_.shutdown();
  control_.shutdown();
  try {
    co_await services_.join();
  } catch (...) {  // told when it happened: service_failed()
  }
}

Error CommunicatorCore::silence() const {
  std::optional<Rank> silent = control_.awaited();
  // Who waits in a phase may have forgotten its arrivals; who waits for an arrival has come to all phases.
  for (const Rank peer : exec_.peers())
    if (!silent && meeting_ && meeting_->includes(peer) && !meeting_->has_come_to_phase(peer)) silent = peer;
  for (const Rank peer : exec_.peers())
    if (!silent && meeting_ && meeting_->includes(peer) && !meeting_->has_arrived(peer)) silent = peer;
  const std::string head = fmt::format("joining '{}': all ranks came, but ", membership_.name);
  if (control_.waits_for_room())
    return Error(
        ErrorKind::ResourceLimit,
        fmt::format("{}too many descriptors that processes of this user pass to each other were on "
                    "their way until the time was over: a process that was stopped may hold them up; "
                    "at most {} may be, so else raise the limit on open files (ulimit -n)",
                    head, descriptor_limit::current()));
  if (!silent)
    return Error(ErrorKind::DeadlineExceeded,
                 head + "the time was over before all was measured; give it more (COHORT_JOIN_TIMEOUT)");
  return Error(ErrorKind::PeerSilent, fmt::format("{}{} did not answer in time: it is stopped, or hangs, or "
                                                  "the network between us does",
                                                  head, membership_.peers[*silent].describe()))
      .with_culprit(*silent);
}

void CommunicatorCore::abort(const std::string& reason) noexcept {
  leave_because(fmt::format("after collective #{}: {}", running_.sequence, reason));
}

void CommunicatorCore::leave_because(const std::string& when_and_why) noexcept {
  if (health_.is_failed() || is_closed_) return;
  health_.fail(
      Error(ErrorKind::PeerAborted, fmt::format("{} gave up {}", membership_.self().describe(), when_and_why))
          .with_culprit(membership_.rank));
}

/// The call has its number from here on.
void CommunicatorCore::begin(const Call& call) noexcept {
  prepare(call);
  (void)health_.begin(running_.sequence, running_.signature);
}

void CommunicatorCore::prepare(const Call& call) noexcept {
  ++running_.sequence;
  running_.signature = sign(call);
  running_.windows.bind(WindowId::send, call.send, call.send_bytes);
  running_.windows.bind(WindowId::recv, call.recv, call.recv_bytes);
  running_.is_running = true;
  if (meeting_) meeting_->begin();
  resources_.operation_started();
}

bool CommunicatorCore::may_complete_here(const Call& call) const noexcept {
  if (meeting_) return meeting_->may_complete_here(call);
  return call.algorithm->ground() == Ground::alone && call.message_bytes() <= kMostBytesInPlace;
}

bool CommunicatorCore::complete_here(const Call& call) noexcept {
  if (meeting_) return meeting_->complete_here(call);
  exec_.begin(UserWindows::mapped, 0);
  call.algorithm->combine(exec_, call.arguments(membership_.size));
  return true;
}

bool CommunicatorCore::try_complete_now(const Call& call, bool& has_begun) noexcept {
  const bool may = !turn_.is_locked() && !is_closed_ && !health_.is_failed() && may_complete_here(call);
  if (!may || !engine_.pace().may_do(kCallBytes + 2 * call.message_bytes())) return false;
  has_begun = turn_.try_lock();
  prepare(call);
  if (meeting_) meeting_->announce(call);
  (void)health_.begin(running_.sequence, running_.signature);  // while the announcement travels
  if (!complete_here(call)) return false;
  running_.is_running = false;
  turn_.unlock();
  return true;
}

Task<> CommunicatorCore::run(const Call& call, bool has_begun) {
  CancelScope* around = co_await current_scope();
  std::optional<Mutex::Guard> turn;
  if (has_begun) {
    turn.emplace(turn_);
  } else {
    Mutex::Guard taken = co_await turn_.lock();
    turn.emplace(std::move(taken));
    if (engine_.is_turn_over()) co_await engine_.let_others_run();  // in its place: nobody overtakes it
    if (around != nullptr) around->throw_if_cancelled();
    if (health_.is_failed()) throw Error(health_.cause());
    if (is_closed_)
      throw Error(ErrorKind::InvalidArgument, fmt::format("communicator '{}' is closed", membership_.name));
    begin(call);
  }
  CancelScope scope(around);
  operation_scope_ = &scope;
  watchdog_.begin(call.timeout > Duration::zero() ? call.timeout : timeout_);
  if (health_.is_failed()) scope.cancel(health_.cause());
  std::exception_ptr failure;
  try {
    Task<> running = with_scope(scope, orchestrate(call));
    co_await running;
  } catch (...) {
    failure = std::current_exception();
  }
  watchdog_.end();
  operation_scope_ = nullptr;
  if (failure) {
    const Error cause = settle_failure(failure);
    co_await withdraw();
    running_.is_running = false;
    throw Error(cause);
  }
  running_.is_running = false;
}

Task<> CommunicatorCore::orchestrate(const Call& call) {
  if (meeting_) return attend_and_run(call);
  exec_.begin(UserWindows::staged, 0);
  return run_schedule(call);
}

/// What is over when all have met needs no more.
Task<> CommunicatorCore::attend_and_run(const Call& call) {
  const bool is_over = co_await meeting_->attend(call);
  if (!is_over) co_await run_schedule(call);
}

Task<> CommunicatorCore::run_schedule(const Call& call) {
  if (call.algorithm->ground() == Ground::alone) return complete_alone(call);
  const std::size_t piece = piece_bytes(*call.algorithm, call, reach_);
  const ResourceTag tag{call.algorithm, size_class(piece)};
  if (!resources_.is_provided(tag)) return provide_and_run(call, tag);
  const bool touches =
      call.algorithm->ground() == Ground::mapped && meeting_->windows() == UserWindows::mapped;
  if (touches) return run_on_peers_memory(call, piece);
  return call.algorithm->run(exec_, call.arguments(membership_.size), piece);
}

Task<> CommunicatorCore::complete_alone(const Call& call) {
  exec_.begin(UserWindows::mapped, 0);
  const OperatorArguments arguments = call.arguments(membership_.size);
  co_await exec_.combine_in_turns(*call.algorithm, arguments);
}

Task<> CommunicatorCore::provide_and_run(const Call& call, ResourceTag tag) {
  const Needs needs = call.algorithm->needs(class_bytes(tag.size_class), membership_.size);
  co_await resources_.provide(tag, needs);
  resources_.bind(running_.windows);
  co_await run_schedule(call);
}

/// Guarded from the first step to the last: a rank whose collective fails waits for this before it gives its
/// buffers back.
Task<> CommunicatorCore::run_on_peers_memory(const Call& call, std::size_t piece) {
  host::Touch touch;
  if (!touch.begin(*resources_.group())) co_await engine_.sleep_until(kNever);  // until the cause comes
  co_await call.algorithm->run(exec_, call.arguments(membership_.size), piece);
}

/// No peer touches this rank's buffers after this. Those that are gone touch nothing.
Task<> CommunicatorCore::withdraw() {
  host::HostGroup* const group = resources_.group();
  if (group == nullptr) co_return;
  const auto is_gone = [this](Rank peer) { return health_.is_gone(peer); };
  CancelScope uncancelled;
  Task<> withdrawing = with_scope(uncancelled, group->withdraw(is_gone));
  co_await withdrawing;
}

/// What the caller gets: the communicator's one cause, or, if this rank is the first to fail, its own error,
/// which the others hear of as this rank's giving up.
Error CommunicatorCore::settle_failure(const std::exception_ptr& failure) noexcept {
  if (health_.is_failed()) return health_.cause();
  Error own(ErrorKind::Internal, "an unknown exception");
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    own = error.kind() == ErrorKind::DeadlineExceeded ? deadline_exceeded() : error;
  } catch (const std::exception& error) {
    own = Error(ErrorKind::Internal, error.what());
  } catch (...) {  // stays unknown
  }
  const bool concerns_all = own.kind() == ErrorKind::DeadlineExceeded || own.kind() == ErrorKind::LinkFault;
  if (concerns_all)
    health_.fail(own);
  else
    leave_because(fmt::format("in collective #{}, {}: {}", running_.sequence, describe(running_.signature),
                              own.what()));
  return own;
}

/// Without it this rank would miss what peers say, and nobody would know why the next collective hangs.
void CommunicatorCore::service_failed(const std::exception_ptr& failure) noexcept {
  if (is_closed_) return;
  ErrorKind kind = ErrorKind::Internal;
  std::string what = "an unknown exception";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    kind = error.kind();
    what = error.message();
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {  // stays unknown
  }
  health_.fail(
      Error(kind, fmt::format("{} cannot go on listening to its peers on '{}': {}; its host is short of "
                              "something, or its network changed: look there, then start the job again",
                              membership_.self().describe(), membership_.name, what))
          .with_culprit(membership_.rank));
}

Error CommunicatorCore::deadline_exceeded() const {
  const double seconds = std::chrono::duration<double>(watchdog_.elapsed()).count();
  std::string missing;
  std::optional<Rank> culprit;  // who waits for another rank is only the next one to be waited for
  std::optional<Rank> waiting;
  for (const Rank peer : exec_.peers()) {
    const bool is_here = meeting_ && meeting_->includes(peer) ? meeting_->has_arrived(peer)
                                                              : health_.last_seen(peer) >= running_.sequence;
    if (is_here) continue;
    missing += (missing.empty() ? "" : ", ") + membership_.peers[peer].describe();
    std::optional<Rank>& lowest = health_.waits_too(peer, running_.sequence) ? waiting : culprit;
    lowest = lowest ? std::min(*lowest, peer) : peer;
  }
  if (!culprit) culprit = waiting;
  const std::string who = missing.empty() ? std::string("all ranks have called it and wait for data")
                                          : fmt::format("not called so far by {}", missing);
  Error error(
      ErrorKind::DeadlineExceeded,
      fmt::format(
          "{} #{} on '{}' was not finished within {:.3f} s: {}; find out what that rank does instead, or "
          "give the call a longer deadline (COHORT_TIMEOUT)",
          describe(running_.signature), running_.sequence, membership_.name, seconds, who));
  return culprit ? error.with_culprit(*culprit) : error;
}

}  // namespace cohort
