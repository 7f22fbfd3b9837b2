// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/communicator_core.h>

#include <cohort/collectives/job/establish.h>
#include <cohort/collectives/job/resolved_options.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/host/touch.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

/// Of the time of joining, for what a rank measures by itself.
constexpr int kPartForLinks = 30;

/// Of this rank's own, as it joined: not what it heard, nor how a connection ended.
bool is_finding(const std::exception_ptr& failure) {
  const std::optional<Error> error = failure ? error_in(failure) : std::nullopt;
  return error && (error->kind() == ErrorKind::Mismatch || is_own_fault(error->kind()));
}

}  // namespace

void CommunicatorCore::check(const CommunicatorOptions& options) {
  Choices::check(options);
  transports_of(options).check();
}

std::shared_ptr<CommunicatorCore> CommunicatorCore::create(Engine& engine,
                                                           std::unique_ptr<Membership>& membership,
                                                           const CommunicatorOptions& options) {
  std::shared_ptr<CommunicatorCore> core(new CommunicatorCore(engine, membership, options, nullptr, nullptr));
  core->job_->set_root(core);
  return core;
}

std::shared_ptr<CommunicatorCore> CommunicatorCore::create_group(
    const std::shared_ptr<CommunicatorCore>& root, GroupTable::Group& group) {
  const std::shared_ptr<Job> job(root, root->job_.get());  // owns the root
  CommunicatorOptions options = job->options();
  options.buffer_bytes = group.buffer_bytes;
  auto membership = std::make_unique<Membership>(membership_in(job->membership(), group));
  return std::shared_ptr<CommunicatorCore>(
      new CommunicatorCore(job->engine(), membership, options, job, &group));
}

CommunicatorCore::CommunicatorCore(Engine& engine, std::unique_ptr<Membership>& membership,
                                   const CommunicatorOptions& options, std::shared_ptr<Job> job,
                                   GroupTable::Group* group)
    : engine_(engine),
      membership_(*membership),
      is_group_(group != nullptr),
      group_(group),
      place_(is_group_ ? group->place : place_of_root(membership_.size)),
      timeout_(timeout_of(options)),
      choices_(options, membership_),
      copy_threads_(options.copy_threads),
      job_(job ? std::move(job) : std::make_shared<Job>(engine, membership_, health_, services_, options)),
      control_(job_->plane(), place_.numbers[membership_.rank], membership_.rank, place_.ranks),
      health_(
          engine, membership_, control_, running_, call_, services_, choices_.algorithms(),
          [this](const Error& cause) { end_with(cause); },
          [this](Rank peer) { return resources_.is_cut_off(peer); }),
      run_ahead_(engine, membership_, running_, health_),
      within_(is_group_ ? std::optional<PeerTransports::Within>({job_->transports(), place_}) : std::nullopt),
      resources_(engine, membership_, *this, transports_of(options), within_ ? &*within_ : nullptr),
      exec_(engine, membership_, *this, resources_),
      composite_(engine, membership_, choices_, job_->heap(), running_, call_, exec_, *this),
      calibrator_({engine, membership_, *job_, is_group_, choices_, resources_, arrival_, exec_, running_,
                   options.pull_from_bytes, [this](const Call& call) { return run_unnumbered(call); }}),
      watchdog_(
          engine,
          [this] {
            if (!call_.is_between_messages()) health_.report_stall();
          },
          [this] { time_is_over(); }),
      report_({engine, membership_, exec_, arrival_, health_, running_, call_, watchdog_}) {
  services_.set_on_failure([this](const std::exception_ptr& failure) { service_failed(failure); });
  resources_.bind(running_.windows);
  choices_.measured_reach() = {.is_host_wide = resources_.is_host_wide(),
                               .hosts = resources_.transports().hosts(),
                               .buffer_bytes = resources_.buffer_bytes()};
  if (!is_group_) job_->serve(resources_);
  host::HostGroup* const group_of_host = resources_.group();
  if (group_of_host != nullptr && group_of_host->members().size() > 1)
    arrival_.emplace(engine, membership_, *group_of_host, *this, running_, exec_, *job_->heap(),
                     choices_.reach());
  owned_membership_ = std::move(membership);
}

CommunicatorCore::~CommunicatorCore() {
  COHORT_ASSERT(!turn_.is_locked(), "communicator '{}' ended with a collective running", membership_.name);
}

Task<> CommunicatorCore::establish(Duration timeout) {
  const TimePoint until = after(engine_.now(), timeout);
  if (is_group_)
    calibrator_.take_over_from_job();
  else
    co_await establish_with_all(timeout);
  make_ready();
  if (calibrator_.has_to_measure()) co_await measure_as_joined(until);
  health_.joined();
  calibrator_.joined();
}

/// What ranks measure together, so that what follows is chosen by figures of these hosts.
Task<> CommunicatorCore::measure_as_joined(TimePoint until) {
  CancelScope* around = co_await current_scope();
  CancelScope scope(around);
  operation_scope_ = &scope;
  if (health_.is_failed()) scope.cancel(health_.cause());
  std::exception_ptr failure;
  try {
    Task<> measuring = with_scope(scope, calibrator_.measure_as_joined(until));
    co_await measuring;
  } catch (...) {
    failure = std::current_exception();
  }
  operation_scope_ = nullptr;
  running_.is_running = false;
  if (failure) std::rethrow_exception(failure);
}

Task<> CommunicatorCore::establish_with_all(Duration timeout) {
  const Duration budget = std::min(timeout / kPartForLinks, LinkSpeed::kMostTime);
  CancelScope* around = co_await current_scope();
  CancelScope scope(around);
  operation_scope_ = &scope;  // others may be through before this rank is, and fail
  std::optional<LinkSpeed> speed;
  std::exception_ptr failure;
  try {
    Task<std::optional<LinkSpeed>> exchanging =
        with_scope(scope, exchange_hellos(engine_, membership_, job_->plane(), resources_, services_,
                                          job_->ranks_per_core(), budget));
    const std::optional<LinkSpeed> agreed = co_await exchanging;
    speed = agreed;
  } catch (...) {
    failure = std::current_exception();
  }
  operation_scope_ = nullptr;
  // What this rank has found by itself goes before what it heard, and that before how connections ended.
  if (health_.is_failed() && !is_finding(failure)) throw Error(health_.cause());
  if (failure) std::rethrow_exception(failure);
  Reach& reach = choices_.measured_reach();
  if (speed) reach.model = CostModel(*speed, membership_.size, NetworkSpeed::between(membership_));
  reach.hosts = resources_.transports().hosts();
  if (job_->ranks_per_core() > 1) engine_.set_oversubscribed(true);
  engine_.expect_engines_per_core(job_->ranks_per_core());
}

void CommunicatorCore::make_ready() noexcept {
  resources_.start(services_);
  if (is_group_) job_->groups().attach(*group_, *this);
  bool is_one_process = !resources_.is_isolated();
  for (Rank peer = 0; peer < membership_.size; ++peer)
    is_one_process = is_one_process && membership_.shares_process(peer);
  if (arrival_ && is_one_process) arrival_->set_one_process();
  exec_.set_cores(job_->membership().core_supply(), job_->membership().ranks_of_host());
  exec_.workers().allow(copy_threads_ ? *copy_threads_ : CopyWorkers::most_for(job_->ranks_per_core()));
}

Task<> CommunicatorCore::run_begun(const Call& call) {
  const bool is_done = may_complete_here(call) && complete_here(call);
  if (!is_done) co_await orchestrate(call);
  call_.end_message();
}

Task<> CommunicatorCore::close() {
  if (is_closed()) co_return;
  stage_ = Stage::closing;
  takes_calls_ = false;
  co_await hear_of_last_call();
  stage_ = Stage::left;
  health_.leave();
  if (!health_.is_failed()) co_await let_data_leave();
  ControlMessage goodbye;
  goodbye.type = ControlMessage::Type::goodbye;
  goodbye.sequence = running_.sequence;
  goodbye.signature = running_.signature;
  control_.broadcast(goodbye);
  resources_.shutdown();
  if (is_group_) {
    co_await end_services();
    co_await job_->group_has_left(*std::exchange(group_, nullptr));
  } else {
    co_await job_->root_has_left();
  }
  if (is_untold()) throw Error(health_.cause());
}

Task<> CommunicatorCore::end_services() {
  services_.cancel();
  try {
    co_await services_.join();
  } catch (...) {  // told when it happened: service_failed()
  }
}

/// One call outside the numbered sequence of the user's: no watchdog, since the joining has its deadline.
Task<> CommunicatorCore::run_unnumbered(const Call& call) {
  prepare(call, sign(call, membership_.size));
  co_await run_begun(call);
  running_.is_running = false;
}

/// After a call to which all have come, so that they are together; `is_joint`: it was one. The time that it
/// takes is the call's: where that could become short, nothing is measured.
Task<> CommunicatorCore::run_and_measure_again(Task<> running, bool is_joint) {
  co_await running;
  if (!is_joint) {
    calibrator_.postpone();
    co_return;
  }
  const TimePoint until = std::min(watchdog_.deadline(), operation_scope_->deadline());
  call_.begin_measuring();
  watchdog_.begin_message();
  co_await calibrator_.measure_again(until);
}

void CommunicatorCore::begin(const Call& message, const Signature& signature) {
  prepare(message, signature);
  if (call_.whole()) {
    call_.begin_message();
    watchdog_.begin_message();
  }
  if (!health_.begin(running_.sequence, running_.signature)) throw Error(health_.cause());
}

void CommunicatorCore::prepare(const Call& call, const Signature& signature) noexcept {
  ++running_.sequence;
  running_.signature = signature;
  run_ahead_.begin(call.op);
  running_.windows.bind(WindowId::send, call.send, call.send_bytes);
  if (call.blocks.empty()) [[likely]]
    running_.windows.bind(WindowId::recv, call.recv, call.recv_bytes);
  else
    running_.windows.bind_blocks(WindowId::recv, call.blocks, call.send_bytes);
  running_.is_running = true;
  if (arrival_) arrival_->begin(call);
  resources_.operation_started();
}

bool CommunicatorCore::may_complete_here(const Call& call) const noexcept {
  if (call.reduce == ReduceOp::scaled_sum) return false;
  if (arrival_) return arrival_->may_complete_here(call);
  return call.algorithm->scope() == Scope::self && call.message_bytes() <= tuning::slots::kMostInPlace;
}

bool CommunicatorCore::complete_here(const Call& call) noexcept {
  if (arrival_) return arrival_->complete_here(call);
  exec_.begin(UserWindows::mapped, 0);
  call.algorithm->combine(exec_, call.arguments(membership_.size));
  return true;
}

bool CommunicatorCore::try_complete_now(const Call& call, bool& has_begun) noexcept {
  const bool may = !call.has_own_counts() && !turn_.is_locked() && takes_calls_ &&
                   running_.sequence < call.chosen_until && may_complete_here(call);
  if (!may || !engine_.pace().may_do(kCallBytes + 2 * call.message_bytes())) return false;
  has_begun = turn_.try_lock();
  call_.begin();
  prepare(call, sign(call, membership_.size));
  const bool is_announced = !arrival_ || arrival_->announce_here(call);
  const bool is_well =
      health_.begin(running_.sequence, running_.signature);  // while the announcement travels
  if (!is_announced || !is_well || !complete_here(call)) return false;
  running_.is_running = false;
  turn_.unlock();
  return true;
}

Task<> CommunicatorCore::run(Asked asked, bool has_begun) {
  const CallUnderWay under_way(engine_);
  CancelScope* around = co_await current_scope();
  std::optional<Mutex::Guard> turn;
  if (has_begun) {
    turn.emplace(turn_);
  } else {
    Mutex::Guard taken = co_await turn_.lock();
    turn.emplace(std::move(taken));
    if (engine_.is_turn_over()) co_await engine_.let_others_run();  // in its place: nobody overtakes it
    if (around != nullptr) around->throw_if_cancelled();
    has_told_ = health_.is_failed();
    if (has_told_) throw Error(health_.cause());
    if (is_closed())
      throw Error(ErrorKind::InvalidArgument, fmt::format("communicator '{}' is closed", membership_.name));
  }
  const Duration timeout = std::visit([](const auto* call) { return call->timeout; }, asked);
  CancelScope scope(around);
  operation_scope_ = &scope;
  watchdog_.begin(timeout > Duration::zero() ? timeout : timeout_);
  if (health_.is_failed()) scope.cancel(health_.cause());
  std::exception_ptr failure;
  try {
    Task<> running = with_scope(scope, perform(asked, has_begun));
    co_await running;
  } catch (...) {
    failure = std::current_exception();
  }
  watchdog_.end();
  operation_scope_ = nullptr;
  if (failure) {
    health_.tell_giving_up();
    co_await report_.hear_of_others(failure);
    const Error cause = settle_failure(failure);
    co_await withdraw();
    calibrator_.release();
    running_.is_running = false;
    call_.end();
    has_told_ = true;
    throw Error(cause);
  }
  Call* const* const call = std::get_if<Call*>(&asked);
  if (call != nullptr && (*call)->message_bytes() > tuning::slots::kMostInPlace) exec_.end();
  running_.is_running = false;
  call_.end();
}

/// A call that has begun is one message.
Task<> CommunicatorCore::perform(Asked asked, bool has_begun) {
  if (has_begun && health_.is_failed()) throw Error(health_.cause());
  if (has_begun) return orchestrate(*std::get<Call*>(asked));
  Call* const* const one = std::get_if<Call*>(&asked);
  if (one != nullptr) choices_.renew(**one);
  const bool is_due = running_.sequence >= choices_.end();
  const bool is_message = one != nullptr && !CompositeCalls::is_composite(**one);
  Task<> running = is_message ? begin_and_run(**one)
                              : std::visit([this](const auto* call) { return composite_.run(*call); }, asked);
  if (!is_due) [[likely]]
    return running;
  const bool is_joint = !std::visit([](const auto* call) { return call->op.is_one_way(); }, asked);
  return run_and_measure_again(std::move(running), is_joint);
}

Task<> CommunicatorCore::begin_and_run(const Call& call) {
  call_.begin();
  begin(call, sign(call, membership_.size));
  return orchestrate(call);
}

/// Over links the schedule's own task, else one that meets or provides first.
Task<> CommunicatorCore::orchestrate(const Call& call) {
  if (!arrival_) exec_.begin(UserWindows::staged, 0);
  Task<> running = arrival_ ? attend_and_run(call) : run_schedule(call);
  if (!choices_.reach().is_host_wide && run_ahead_.is_too_long())
    return run_ahead_.shorten_before(std::move(running));
  return running;
}

/// What is over when all have met needs no more.
Task<> CommunicatorCore::attend_and_run(const Call& call) {
  const bool is_over = co_await arrival_->attend(call);
  if (!is_over) co_await run_schedule(call);
}

Task<> CommunicatorCore::run_schedule(const Call& call) {
  if (call.algorithm->scope() == Scope::self) return complete_alone(call);
  const std::size_t piece = piece_bytes(*call.algorithm, call, choices_.reach_for(call));
  const ResourceTag tag{call.algorithm, size_class(piece)};
  if (!resources_.is_provided(tag)) return provide_and_run(call, tag);
  const bool touches = call.algorithm->scope() == Scope::node && arrival_->windows() == UserWindows::mapped;
  if (touches) return run_on_peers_memory(call, piece);
  return call.algorithm->run(exec_, call.arguments(membership_.size), piece);
}

Task<> CommunicatorCore::complete_alone(const Call& call) {
  exec_.begin(UserWindows::mapped, 0);
  const OperatorArguments arguments = call.arguments(membership_.size);
  co_await exec_.combine_in_turns(*call.algorithm, arguments);
}

Task<> CommunicatorCore::provide_and_run(const Call& call, ResourceTag tag) {
  const Needs needs = call.algorithm->needs(class_bytes(tag.size_class), choices_.reach().hosts);
  co_await resources_.provide(tag, needs);
  resources_.bind(running_.windows);
  co_await run_schedule(call);
}

/// A touch from the first step to the last, which looks for withdrawals before each phase (MemoryExec): a
/// peer's call may be over with the last one, before this rank finds everybody there.
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

Task<Rank> CommunicatorCore::transfer(const MessageRequest& request) {
  if (is_closed())
    throw Error(ErrorKind::InvalidArgument, fmt::format("communicator '{}' is closed", membership_.name));
  if (!matching_) {
    matching_.emplace(
        Matching::Use{.engine = engine_,
                      .membership = membership_,
                      .transports = resources_.transports(),
                      .health = health_,
                      .services = services_,
                      .timeout = timeout_,
                      .pull_from_bytes = calibrator_.least_pulled_message(),
                      .has_process_ended = [this](Rank peer) { return has_process_ended(peer); },
                      .withdraw = [this] { return withdraw(); }});
    health_.set_on_goodbye([this](Rank peer) { matching_->peer_left(peer); });
    health_.set_other_work([this](Health::OfWork of) -> std::optional<std::string> {
      if (!matching_) return std::nullopt;
      return of == Health::OfWork::that_waits ? matching_->current_operation() : matching_->last_operation();
    });
  }
  co_return co_await matching_->run(request);
}

}  // namespace cohort
