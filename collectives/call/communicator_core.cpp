// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/communicator_core.h>

#include <cohort/collectives/call/establish.h>
#include <cohort/collectives/call/pieces.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/system/processor.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

namespace cohort {
namespace {

constexpr std::size_t kDefaultBufferBytes = std::size_t{4} << 20;
constexpr std::size_t kLeastBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kDefaultHeapBytes = std::size_t{4} << 30;
constexpr Duration kDefaultTimeout = std::chrono::minutes(10);
constexpr Duration kStall = std::chrono::milliseconds(100);
/// All ranks reach the deadline of a call together. Who cannot name whom it waits for lets the others speak
/// first.
constexpr Duration kLastWords = std::chrono::milliseconds(250);

/// Calls that may complete in a row without suspending before everything else on the engine gets a turn.
constexpr unsigned kCompletedInARow = 64;

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
  return {.kinds = options.transports,
          .asked = options.transport,
          .buffer_bytes = buffer_bytes_of(options),
          .heap_bytes = options.heap_bytes != 0 ? options.heap_bytes : kDefaultHeapBytes,
          .is_isolated = options.is_isolated};
}

std::size_t footprint_of(const Call& call, Rank ranks) {
  return static_cast<std::size_t>(ranks) * (call.send_bytes + call.recv_bytes);
}

/// Around the part of a collective that touches peers' memory.
class Touch : Immovable {
 public:
  ~Touch() {
    if (group_ != nullptr) group_->end_touching();
  }
  /// False, and nothing may be touched, if a peer has failed and may have freed its buffers.
  [[nodiscard]] bool begin(host::HostGroup& group) noexcept {
    group_ = &group;
    return group.begin_touching();
  }

 private:
  host::HostGroup* group_ = nullptr;
};

}  // namespace

/// A place in the order of calls.
class CommunicatorCore::Turn final : public ListHook {
 public:
  explicit Turn(CommunicatorCore& core) noexcept : core_(core), wait_(*this) {}

  bool await_ready() const noexcept { return !std::exchange(core_.is_busy_, true); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
    if (!wait_.begin(waiter, detail::scope_of(waiter))) return false;
    core_.turns_.push_back(*this);
    return true;
  }
  void await_resume() const { wait_.check(); }
  void give() noexcept { wait_.end(); }

 private:
  class Wait final : public Operation {
   public:
    explicit Wait(Turn& turn) noexcept : turn_(turn) {}
    bool begin(std::coroutine_handle<> waiter, CancelScope* scope) noexcept { return suspend(waiter, scope); }
    void end() noexcept { complete(); }
    void check() const { throw_if_cancelled(); }

   private:
    void request_cancel() noexcept override {
      turn_.unlink();
      complete_cancelled();
    }
    Turn& turn_;
  };

  CommunicatorCore& core_;
  Wait wait_;
};

CommunicatorCore::CommunicatorCore(Engine& engine, Membership membership, const CommunicatorOptions& options)
    : engine_(engine),
      membership_(std::move(membership)),
      timeout_(options.timeout > Duration::zero() ? options.timeout : kDefaultTimeout),
      forced_algorithm_(options.algorithm),
      is_isolated_(options.is_isolated),
      copy_threads_(options.copy_threads),
      control_(engine, membership_, health_),
      health_(
          engine, membership_, control_, running_, services_,
          [this](const Error& cause) {
            if (operation_scope_ != nullptr) operation_scope_->cancel(cause);
            resources_.shutdown();
          },
          [this](Rank peer) { return resources_.is_cut_off(peer); }),
      resources_(engine, membership_, *this, transports_of(options)),
      exec_(engine, membership_, *this, resources_),
      pull_from_bytes_(options.pull_from_bytes) {
  reach_ = {.is_host_wide = resources_.is_host_wide(),
            .ranks = membership_.size,
            .buffer_bytes = resources_.buffer_bytes()};
  slot_inputs_.resize(membership_.size);
  const Resources::HeapPlace heap = resources_.heap();
  heap_ = SharedHeap(heap.memory, heap.offset, heap.bytes, options.uses_huge_pages);
}

CommunicatorCore::~CommunicatorCore() {
  COHORT_ASSERT(!is_busy_, "communicator '{}' ended with a collective running", membership_.name);
}

Task<> CommunicatorCore::establish() {
  const std::optional<LinkSpeed> speed =
      co_await exchange_hellos(engine_, membership_, control_, resources_, ranks_per_core());
  if (speed) reach_.model = CostModel(*speed, membership_.size);
  control_.start(services_);
  resources_.start(services_);

  is_one_process_ = !is_isolated_;
  for (Rank peer = 0; peer < membership_.size; ++peer)
    is_one_process_ = is_one_process_ && membership_.shares_process(peer);
  engine_.set_crowded(engine_.is_crowded() || ranks_per_core() > 1);
  exec_.workers().allow(copy_threads_ ? *copy_threads_ : CopyWorkers::most_for(ranks_per_core()));
  if (reach_.is_host_wide && membership_.size > 1) co_await calibrate();
}

double CommunicatorCore::ranks_per_core() const {
  std::set<std::pair<std::uint64_t, std::uint64_t>> engines;  // of this host: each wants a core
  for (Rank peer = 0; peer < membership_.size; ++peer) {
    const PeerInfo& info = membership_.peers[peer];
    const bool is_visible = info.visible_process != 0;
    if (membership_.shares_host(peer))
      engines.emplace(is_visible ? info.visible_process : info.incarnation, info.engine);
  }
  return static_cast<double>(engines.size()) / engine_.network().available_cores();
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
  co_await services_.join();
}

Error CommunicatorCore::silence() const {
  std::optional<Rank> silent = control_.awaited();
  const host::HostGroup* const group = resources_.group();
  for (const Rank peer : exec_.peers())
    if (!silent && reach_.is_host_wide && !group->has_arrived(peer, running_.sequence)) silent = peer;
  const std::string head = fmt::format("joining '{}': all ranks came, but ", membership_.name);
  if (!silent)
    return Error(ErrorKind::DeadlineExceeded,
                 head + "the time was over before all was measured; give it more (COHORT_JOIN_TIMEOUT)");
  return Error(ErrorKind::PeerSilent, fmt::format("{}{} did not answer in time: it is stopped, or hangs, or "
                                                  "the network between us does",
                                                  head, membership_.peers[*silent].describe()))
      .with_culprit(*silent);
}

void CommunicatorCore::abort(const std::string& reason) noexcept {
  if (health_.is_failed() || is_closed_) return;
  health_.fail(
      Error(ErrorKind::PeerAborted, fmt::format("{} gave up after collective #{}: {}",
                                                membership_.self().describe(), running_.sequence, reason))
          .with_culprit(membership_.rank));
}

void CommunicatorCore::begin(const Call& call) noexcept {
  ++running_.sequence;
  running_.signature = sign(call);
  running_.windows.bind(WindowId::send, call.send, call.send_bytes);
  running_.windows.bind(WindowId::recv, call.recv, call.recv_bytes);
  resources_.bind(running_.windows);
  running_.is_running = true;
  progress_ = Progress::begun;
  resources_.operation_started();
}

void CommunicatorCore::end() noexcept {
  running_.is_running = false;
  Turn* next = turns_.pop_front();
  if (next != nullptr)
    next->give();
  else
    is_busy_ = false;
}

bool CommunicatorCore::try_complete_now(const Call& call, bool& has_begun) noexcept {
  const bool may = !is_busy_ && !is_closed_ && !health_.is_failed() && membership_.size > 1 &&
                   (uses_slots(call) || refers(call));
  if (!may || ++completed_in_a_row_ >= kCompletedInARow) return false;
  is_busy_ = has_begun = true;
  begin(call);
  (void)health_.begin(running_.sequence, running_.signature);
  if (!complete_here(call)) return false;
  end();
  return true;
}

/// Announces, and if everybody comes while it spins, combines what lies in the slots or in mapped memory.
bool CommunicatorCore::complete_here(const Call& call) noexcept {
  announce(call);
  host::HostGroup& group = *resources_.group();
  for (const Rank peer : exec_.peers())
    if (!group.spin_for_arrival(peer, running_.sequence) || !agrees(peer)) return false;
  const bool may_combine = uses_slots(call) || count_referring() == membership_.size;
  if (!may_combine || !combine_arrived(call)) return false;
  if (progress_ != Progress::combined) return true;
  if (!group.spin_for_phase()) return false;
  finish_combined(call);
  return true;
}

Task<> CommunicatorCore::run(Call call, bool has_begun) {
  if (!has_begun) {
    if (std::exchange(completed_in_a_row_, 0U) >= kCompletedInARow)
      co_await engine_.sleep_for(Duration::zero());
    co_await Turn(*this);
    CancelScope* scope = co_await current_scope();
    const bool stopped = scope != nullptr && scope->is_cancelled();
    if (stopped || health_.is_failed() || is_closed_) {
      end();
      if (stopped) scope->throw_if_cancelled();
      if (health_.is_failed()) throw Error(health_.cause());
      throw Error(ErrorKind::InvalidArgument, fmt::format("communicator '{}' is closed", membership_.name));
    }
    begin(call);
    (void)health_.begin(running_.sequence, running_.signature);
  }
  std::exception_ptr failure;
  try {
    co_await run_watched(call);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    const Error cause = settle_failure(failure);
    if (resources_.group() != nullptr) resources_.group()->withdraw();
    end();
    throw cause;
  }
  end();
}

Task<> CommunicatorCore::run_watched(Call call) {
  CancelScope* around = co_await current_scope();
  CancelScope scope(around);
  operation_scope_ = &scope;
  watchdog_.begin(call.timeout > Duration::zero() ? call.timeout : timeout_);
  if (health_.is_failed()) scope.cancel(health_.cause());
  Task<> schedule = with_scope(scope, run_schedule(call));
  struct Guard {
    explicit Guard(CommunicatorCore& owner) : core(owner) {}
    ~Guard() {
      core.watchdog_.end();
      core.operation_scope_ = nullptr;
    }
    CommunicatorCore& core;
  } guard(*this);
  co_await schedule;
}

Task<> CommunicatorCore::run_schedule(Call call) {
  if (membership_.size == 1) {
    run_alone(call);
    co_return;
  }
  UserWindows user_windows = UserWindows::staged;
  host::HostGroup* const group = resources_.group();
  Touch touch;
  if (meets()) {
    const bool is_announced = group->has_arrived(membership_.rank, running_.sequence);
    if (!is_announced) announce(call);
    co_await meet();
  }
  if (reach_.is_host_wide) {
    if (uses_slots(call) && progress_ != Progress::combined && !combine_arrived(call))
      co_await engine_.sleep_until(kNever);  // until the cause of the peer's failure comes
    if (progress_ == Progress::combined) {
      co_await group->wait_for_phase();
      finish_combined(call);
    }
    if (uses_slots(call) || progress_ == Progress::combined) co_return;
    user_windows = bind_peer_windows(call);
    const bool touches = user_windows == UserWindows::mapped && call.algorithm == AlgorithmId::direct;
    const bool may_touch = !touches || touch.begin(*group);
    if (!may_touch) co_await engine_.sleep_until(kNever);  // until the cause of the peer's failure comes
  }
  exec_.begin(user_windows, footprint_of(call, membership_.size));
  Task<> schedule = orchestrate_call(call);
  co_await schedule;
}

Task<> CommunicatorCore::orchestrate_call(const Call& call) {
  const std::size_t element = size_bytes(call.type);
  const Slice send{WindowId::send, 0, call.send_bytes};
  const Slice recv{WindowId::recv, 0, call.recv_bytes};
  const Combine combine(call.type, call.reduce, membership_.size);
  const std::size_t block = call.message_bytes();
  switch (call.op) {
    case Operator::barrier: return orchestrate(call, Barrier{});
    case Operator::broadcast: return orchestrate(call, Broadcast{recv, call.root, element});
    case Operator::all_reduce: return orchestrate(call, AllReduce{send, recv, combine, element});
    case Operator::all_gather: return orchestrate(call, AllGather{send, recv.part(0, block), block, element});
    case Operator::reduce_scatter:
      return orchestrate(call, ReduceScatter{send.part(0, block), recv, block, combine, element});
  }
  throw Error(ErrorKind::Internal, "a collective without schedules");
}

/// Phases 2 and 3: provide what the algorithm needs, then run its schedule, in pieces if it must.
template <class Op>
Task<> CommunicatorCore::orchestrate(const Call& call, Op op) {
  const auto table = algorithms<Op>();
  const auto chosen =
      std::find_if(table.begin(), table.end(), [&](const auto& a) { return a.id == call.algorithm; });
  const Algorithm<Op>& algorithm = *chosen;
  const std::size_t piece = piece_bytes(algorithm, call, reach_);
  const ResourceTag tag{call.op, call.algorithm, static_cast<std::uint8_t>(std::bit_width(piece))};
  if (!resources_.is_provided(tag)) {
    const std::size_t class_bytes = std::size_t{1} << tag.size_class;  // no piece of the class is larger
    const Needs needs = algorithm.needs(class_bytes, membership_.size);
    co_await resources_.provide(tag, needs);
    resources_.bind(running_.windows);
  }
  co_await run_in_pieces(algorithm, exec_, op, piece);
}

/// A communicator of one: the result is the input.
void CommunicatorCore::run_alone(const Call& call) noexcept {
  const bool moves = call.op != Operator::barrier && call.op != Operator::broadcast;
  if (moves && call.recv != call.send && call.recv_bytes != 0)
    std::memmove(call.recv, call.send, call.recv_bytes);
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
  }
  const bool concerns_all = own.kind() == ErrorKind::DeadlineExceeded || own.kind() == ErrorKind::LinkFault;
  if (concerns_all)
    health_.fail(own);
  else
    abort(fmt::format("{} of {} #{}", own.what(), describe(running_.signature), running_.sequence));
  return own;
}

Error CommunicatorCore::deadline_exceeded() const {
  const double seconds = std::chrono::duration<double>(watchdog_.elapsed()).count();
  std::string missing;
  std::optional<Rank> culprit;
  for (const Rank peer : exec_.peers()) {
    const bool is_here = reach_.is_host_wide ? resources_.group()->has_arrived(peer, running_.sequence)
                                             : health_.last_seen(peer) >= running_.sequence;
    if (is_here) continue;
    missing += (missing.empty() ? "" : ", ") + membership_.peers[peer].describe();
    culprit = culprit ? std::min(*culprit, peer) : peer;
  }
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

void CommunicatorCore::Watchdog::begin(Duration timeout) {
  started_ = core_.engine_.now();
  deadline_ = after(started_, timeout);
  has_reported_ = false;
  core_.engine_.timers().arm(*this, std::min(deadline_, started_ + kStall));
}

void CommunicatorCore::Watchdog::end() noexcept { core_.engine_.timers().disarm(*this); }

void CommunicatorCore::Watchdog::expire() noexcept {
  const TimePoint now = core_.engine_.now();
  if (now >= deadline_) {
    const Error error = core_.deadline_exceeded();
    const bool lets_others_speak = !error.culprit() && now < deadline_ + kLastWords;
    if (lets_others_speak)
      core_.engine_.timers().arm(*this, deadline_ + kLastWords);
    else
      core_.health_.fail(error);
    return;
  }
  // Once: whoever comes late finds it then. To repeat it would fill the buffers of a rank that does not read,
  // which would pass for dead long before a deadline of minutes.
  if (!std::exchange(has_reported_, true)) core_.health_.report_stall();
  core_.engine_.timers().arm(*this, deadline_);
}

}  // namespace cohort
