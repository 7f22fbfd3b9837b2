// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/communicator_core.h>

#include <cohort/collectives/job/establish.h>
#include <cohort/collectives/job/resolved_options.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/loop/yield_budget.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <string>

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
      wording_(options.wording),
      choices_(options, membership_),
      copy_threads_(options.copy_threads),
      job_(job ? std::move(job) : std::make_shared<Job>(engine, membership_, health_, services_, options)),
      messages_(
          {engine, membership_, *this, choices_, call_, health_, watchdog_}, transports_of(options),
          is_group_ ? std::optional<PeerTransports::Within>({job_->transports(), place_}) : std::nullopt),
      call_(messages_.running()),
      control_(job_->plane(), place_.numbers[membership_.rank], membership_.rank, place_.ranks),
      health_(
          engine, membership_, control_, messages_.running(), call_, services_, choices_.algorithms(),
          [this](const Error& cause) { end_with(cause); },
          [this](Rank peer) { return messages_.resources().is_cut_off(peer); }),
      composite_(engine, membership_, choices_, job_->heap(), call_, messages_),
      calibrator_({engine, membership_, *job_, is_group_, choices_, messages_, options.pull_from_bytes}),
      watchdog_(engine, long_call_of(options),
                {.on_stall =
                     [this] {
                       if (!call_.is_between_messages()) health_.report_stall();
                     },
                 .on_long_call = [this] { warn_of_long_call(); },
                 .on_deadline = [this] { time_is_over(); }}),
      report_({engine, membership_, messages_, health_, call_, watchdog_, timeout_, wording_}) {
  services_.set_on_failure([this](const std::exception_ptr& failure) { service_failed(failure); });
  Resources& resources = messages_.resources();
  choices_.measured_reach() = {.is_host_wide = resources.is_host_wide(),
                               .hosts = resources.transports().hosts(),
                               .buffer_bytes = resources.buffer_bytes()};
  if (!is_group_) job_->serve(resources);
  messages_.meet_on_host(*job_->heap());
  owned_membership_ = std::move(membership);
}

CommunicatorCore::~CommunicatorCore() {
  COHORT_ASSERT(!turn_.is_locked(), "communicator '{}' ended with a collective running", membership_.name);
  if (group_ != nullptr) job_->groups().leave(*group_);  // close() had no memory for that
}

Task<> CommunicatorCore::establish(Duration timeout) {
  const TimePoint until = after(engine_.now(), timeout);
  if (is_group_)
    calibrator_.take_over_from_job();
  else
    co_await establish_with_all(timeout);
  messages_.start(services_, job_->membership(), copy_threads_);
  if (is_group_) job_->groups().attach(*group_, *this);
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
  messages_.end();
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
        with_scope(scope, exchange_hellos(engine_, membership_, job_->plane(), messages_.resources(),
                                          services_, job_->ranks_per_core(), budget));
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
  reach.hosts = messages_.resources().transports().hosts();
  if (job_->ranks_per_core() > 1) {
    engine_.set_oversubscribed(true);
    const bool is_simulated = !engine_.platform().has_devices();  // whose processes are none of this kernel's
    if (!is_simulated && membership_.is_any_apart()) YieldBudget::expect_ranks_apart();
  }
  engine_.expect_engines_per_core(job_->ranks_per_core());
}

Task<> CommunicatorCore::close() {
  if (is_closed()) co_return;
  stage_ = Stage::closing;
  takes_calls_ = false;
  try {
    co_await hear_of_last_call();
  } catch (const std::bad_alloc&) {  // the peers are told of this rank's end in any case
  }
  stage_ = Stage::left;
  health_.leave();
  if (!health_.is_failed()) co_await let_data_leave();
  ControlMessage goodbye;
  goodbye.type = ControlMessage::Type::goodbye;
  goodbye.sequence = messages_.running().sequence;
  goodbye.signature = messages_.running().signature;
  control_.broadcast(goodbye);
  messages_.resources().shutdown();
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

bool CommunicatorCore::try_complete_now(const Call& call, bool& has_begun) noexcept {
  const bool may = !call.has_own_counts() && !turn_.is_locked() && takes_calls_ &&
                   messages_.running().sequence < call.chosen_until && messages_.may_complete_here(call);
  if (!may || !engine_.pace().may_do(kCallBytes + 2 * call.message_bytes())) return false;
  has_begun = turn_.try_lock();
  call_.begin();
  messages_.prepare(call, sign(call, membership_.size));
  const bool is_announced = messages_.announce_here(call);
  const bool is_well = health_.begin(messages_.running().sequence,
                                     messages_.running().signature);  // while the announcement travels
  if (!is_announced || !is_well || !messages_.complete_here(call)) return false;
  messages_.end();
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
    const Error cause = report_.settle(failure);
    co_await messages_.withdraw();
    calibrator_.release();
    messages_.end();
    call_.end();
    has_told_ = true;
    throw Error(cause);
  }
  Call* const* const call = std::get_if<Call*>(&asked);
  if (call != nullptr) messages_.finish(**call);
  messages_.end();
  call_.end();
}

/// A call that has begun is one message.
Task<> CommunicatorCore::perform(Asked asked, bool has_begun) {
  if (has_begun && health_.is_failed()) throw Error(health_.cause());
  if (has_begun) return messages_.run(*std::get<Call*>(asked));
  Call* const* const one = std::get_if<Call*>(&asked);
  if (one != nullptr) choices_.renew(**one);
  const bool is_due = messages_.running().sequence >= choices_.end();
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
  messages_.begin(call, sign(call, membership_.size));
  return messages_.run(call);
}

Matching& CommunicatorCore::matching() {
  if (is_closed())
    throw Error(ErrorKind::InvalidArgument, fmt::format("communicator '{}' is closed", membership_.name));
  if (matching_) return *matching_;
  matching_.emplace(Matching::Use{.engine = engine_,
                                  .membership = membership_,
                                  .transports = messages_.resources().transports(),
                                  .health = health_,
                                  .services = services_,
                                  .timeout = timeout_,
                                  .wording = wording_,
                                  .pull_from_bytes = calibrator_.least_pulled_message(),
                                  .has_process_ended = [this](Rank peer) { return has_process_ended(peer); },
                                  .withdraw = [this] { return messages_.withdraw(); }});
  health_.set_on_goodbye([this](Rank peer) { matching_->peer_left(peer); });
  health_.set_other_work([this](Health::OfWork of) -> std::optional<std::string> {
    if (!matching_) return std::nullopt;
    return of == Health::OfWork::that_waits ? matching_->current_operation() : matching_->last_operation();
  });
  return *matching_;
}

Task<Envelope> CommunicatorCore::transfer(const MessageRequest& request) {
  co_return co_await matching().run(request);
}

std::optional<Envelope> CommunicatorCore::look_now(const MessageRequest& probe) {
  return matching().look_now(probe);
}

}  // namespace cohort
