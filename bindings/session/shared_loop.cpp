// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/session/shared_loop.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/io/epoll_driver.h>
#include <cohort/engine/io/wakeup.h>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

namespace cohort::bindings {
namespace {

/// How often a thread that waits is asked whether its program wants it back.
constexpr Duration kQuestionInterval = std::chrono::milliseconds(50);
/// While threads drive the engine themselves, each of its events would wake the keeper for nothing: it rests,
/// at first so long, then longer, as long as the same one drives.
constexpr Duration kFirstRest = std::chrono::milliseconds(1);
constexpr Duration kLongestRest = std::chrono::milliseconds(100);

constexpr int kTurnsOfNudge = 8;

/// While it lives, threads that are made get no signals: those are for the program's own.
class NoSignals : Immovable {
 public:
  NoSignals() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

Duration until_or(TimePoint until, TimePoint now, Duration most) {
  return until == kNever ? most : std::clamp(Duration(until - now), Duration::zero(), most);
}

Error cancelled() { return {ErrorKind::Cancelled, "the caller asked this work to stop"}; }
Error interrupted() {
  return {ErrorKind::Cancelled, "the program was interrupted while it waited; other ranks are told so"};
}

}  // namespace

SharedLoop::SharedLoop() : keeper_event_(wakeup::make_event()) {
  try {
    const NoSignals no_signals;
    thread_ = std::thread([this] { keep(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::ResourceLimit,
                fmt::format("no thread for the session: {}; check ulimit -u and the cgroup's pids.max",
                            error.what()));
  }
  {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [this] { return is_ready_; });
  }
  if (!failure_) return;
  thread_.join();
  std::rethrow_exception(failure_);
}

SharedLoop::~SharedLoop() {
  if (failure_) return;
  struct End final : Work {
    explicit End(bool& flag) : is_ending(flag) {}
    Task<> body() override {
      is_ending = true;
      co_return;
    }
    bool& is_ending;
  } ending(is_ending_);
  run(ending, nullptr);
  thread_.join();
}

void SharedLoop::refuse_child() const {
  if (is_forked()) [[unlikely]]
    throw Error(ErrorKind::InvalidArgument,
                "this process was forked from a rank after it had joined, and is none itself: call cohort in "
                "the parent, or join here under another name");
}

// Leading.

bool SharedLoop::lead_or_want() noexcept {
  std::uint32_t seen = lead_.load();
  while (!lead_.compare_exchange_weak(seen, seen == 0 ? kLed : seen | kWanted)) {
  }
  return seen == 0;
}

void SharedLoop::begin(Work& work) {
  ++begun_;
  TaskScope& within = work.within_ == nullptr ? works_ : *work.within_;
  work.scope_.begin(&within.cancel_scope());
  if (work.cancelled_) [[unlikely]]
    work.scope_.get()->cancel(*work.cancelled_);
  within.spawn(carry_out(work));
}

Task<> SharedLoop::carry_out(Work& work) {
  std::exception_ptr failure;
  try {
    Task<> body = with_scope(*work.scope_.get(), work.body());
    co_await body;
  } catch (...) {
    failure = std::current_exception();
  }
  end(work, std::move(failure));
}

/// Whoever waits for the work may end it as soon as it is over.
void SharedLoop::end(Work& work, std::exception_ptr failure) noexcept {
  if (--begun_ == 0 && std::exchange(is_ending_, false)) [[unlikely]]
    end_.post();
  work.scope_.end();
  work.failure_ = std::move(failure);
  const std::shared_ptr<Work> held = std::move(work.held_);
  if (std::ranges::find(driven_for_, &work) != driven_for_.end()) stops_ = true;
  if (held == nullptr && !work.is_waited_for_) {
    work.is_over_.store(true, std::memory_order_release);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work.is_over_.store(true, std::memory_order_release);
    if (work.is_waited_for_) over_.notify_all();
  }
  if (held != nullptr) held->told();
}

void SharedLoop::cancel_on_engine(Work& work, const Error& cause) noexcept {
  if (CancelScope* const scope = work.scope_.get())
    scope->cancel(cause);
  else
    work.cancelled_ = cause;
}

/// Until it is over, that moment has come, or the caller may be asked again whether its program wants it
/// back.
void SharedLoop::drive(Works works, TimePoint until, bool may_be_asked) {
  is_driven_.store(true);
  drives_.fetch_add(1, std::memory_order_relaxed);
  driven_for_ = works;
  if ((lead_.load() & kWanted) != 0) run_->enter([this] { take_orders(); });
  const TimePoint question = may_be_asked ? engine_->now() + kQuestionInterval : kNever;
  const TimePoint end = std::min(until, question);
  while (!is_any_over(works) && engine_->now() < end) {
    stops_ = false;
    engine_->timers().arm(alarm_, end);
    run_->run_until(stops_);
  }
  engine_->timers().disarm(alarm_);
  driven_for_ = {};
  is_driven_.store(false);
}

void SharedLoop::take_orders() noexcept {
  for (;;) {
    Order order;
    {
      const std::lock_guard lock(mutex_);
      if (orders_.empty()) return;
      order = std::move(orders_.front());
      orders_.pop_front();
      if (order.what != Order::What::begin && order.work->is_over()) continue;
    }
    if (order.what != Order::What::begin) {
      if (order.what == Order::What::interrupt)
        cancel_on_engine(*order.work, interrupted());
      else if (order.work->may_be_cancelled())
        cancel_on_engine(*order.work, cancelled());
      continue;
    }
    Work& work = *order.work;
    work.held_ = std::move(order.held);
    begin(work);
  }
}

/// Whether the keeper, asleep as it is, will notice what comes next.
bool SharedLoop::is_at_rest() noexcept {
  if (begun_ != 0 && !keeper_watches_.load()) return false;
  return run_->next_deadline() >= keeper_until_.load();
}

void SharedLoop::hand_on() noexcept {
  for (;;) {
    const bool may_leave = is_at_rest();
    {
      const std::lock_guard lock(mutex_);
      if (orders_.empty() && followers_ != 0) {
        lead_.store(0);
        over_.notify_all();  // one of them leads from here on
        return;
      }
      if (orders_.empty()) {
        const bool goes_to_keeper = keeper_waits_ || !may_leave;
        keeper_leads_ = goes_to_keeper;
        keeper_waits_ = false;
        lead_.store(goes_to_keeper ? kLed : 0);
        if (goes_to_keeper) wakeup::signal_event(keeper_event_.number());
        return;
      }
    }
    run_->enter([this] { take_orders(); });
  }
}

// What threads ask for.

/// False: nobody led, so that this thread does now, and the order is its own to carry out.
bool SharedLoop::give_order(Order order) {
  bool is_driven = false;
  {
    const std::lock_guard lock(mutex_);
    if (lead_or_want()) return false;
    orders_.push_back(std::move(order));
    is_driven = is_driven_.load();
  }
  if (is_driven) engine_->post([this] { take_orders(); });
  return true;
}

void SharedLoop::run(Work& work, Interrupt* interrupt) {
  refuse_child();
  Work* const works[] = {&work};
  if (!try_lead()) [[unlikely]] {
    work.is_waited_for_ = true;
    if (give_order({Order::What::begin, &work, nullptr})) {
      (void)attend(works, nullptr, kNever, interrupt);
      work.take();
      return;
    }
    work.is_waited_for_ = false;
  }
  run_->enter([&] { begin(work); });
  if (work.is_over()) [[likely]] {
    release(work.is_quiet_ && !engine_->has_ready());
  } else {
    drive(works, kNever, interrupt != nullptr);
    const bool is_over = work.is_over();
    work.is_waited_for_ = true;  // who leads next ends it with the lock, as attend() looks at it
    release(false);
    if (!is_over) {
      ask(work, nullptr, interrupt);
      (void)attend(works, nullptr, kNever, interrupt);
    }
  }
  work.take();
}

void SharedLoop::start(std::shared_ptr<Work> work, Duration patience) {
  refuse_child();
  if (!try_lead() && give_order({Order::What::begin, work.get(), work})) return;
  Work& begun = *work;
  begun.held_ = work;
  run_->enter([&] { begin(begun); });
  if (patience > Duration::zero() && begun_ == 1 && !begun.is_over()) {
    Work* const works[] = {&begun};
    drive(works, engine_->now() + patience, false);
  }
  release(begun.is_over() && begun.is_quiet_ && !engine_->has_ready());
}

bool SharedLoop::wait(const std::shared_ptr<Work>& work, TimePoint until, Interrupt* interrupt) {
  refuse_child();
  if (work->is_over()) return true;
  Work* const works[] = {work.get()};
  return attend(works, work, until, interrupt);
}

bool SharedLoop::wait_any(std::span<const std::shared_ptr<Work>> works, TimePoint until) {
  refuse_child();
  std::vector<Work*> all;
  for (const auto& work : works) all.push_back(work.get());
  return is_any_over(all) || attend(all, nullptr, until, nullptr);
}

bool SharedLoop::is_any_over(Works works) noexcept {
  return std::ranges::any_of(works, [](const Work* work) { return work->is_over(); });
}

/// What is ready is run, so that nothing is left for the keeper, who would first have to wake.
bool SharedLoop::nudge() {
  refuse_child();
  if (!try_lead()) return false;
  for (int turn = 0; turn == 0 || (engine_->has_ready() && turn < kTurnsOfNudge); ++turn) run_->step();
  release(false);
  return true;
}

void SharedLoop::cancel(const std::shared_ptr<Work>& work) {
  refuse_child();
  if (!try_lead() && give_order({Order::What::cancel, work.get(), work})) return;
  if (!work->is_over() && work->may_be_cancelled())
    run_->enter([&] { cancel_on_engine(*work, cancelled()); });
  release(false);
}

/// Waits while others drive; drives where they leave. `held`: the one work that is waited for, if it goes on
/// without the thread; who waits for several has no interrupt.
bool SharedLoop::attend(Works works, const std::shared_ptr<Work>& held, TimePoint until,
                        Interrupt* interrupt) {
  std::unique_lock lock(mutex_);
  for (Work* const work : works)
    if (!work->is_waited_for_) work->is_waited_for_ = true;
  while (!is_any_over(works)) {
    const auto now = std::chrono::steady_clock::now();
    if (until != kNever && now >= until) break;
    bool is_time_to_ask = true;
    if (lead_or_want()) {
      lock.unlock();
      drive(works, until, interrupt != nullptr);
      release(false);
      lock.lock();
    } else {
      const Duration most = interrupt == nullptr ? std::chrono::hours(1) : kQuestionInterval;
      ++followers_;
      is_time_to_ask = over_.wait_for(lock, until_or(until, now, most)) == std::cv_status::timeout;
      --followers_;
    }
    if (!is_time_to_ask || interrupt == nullptr || is_any_over(works)) continue;
    pass_on(lock);  // the question may wait for somebody who waits here
    ask(*works.front(), held, interrupt);
    lock.lock();
  }
  // Nobody may know the work of a thread that goes on. What was asked of one that is held still holds.
  std::erase_if(orders_, [&](const Order& order) {
    return order.held == nullptr && std::ranges::find(works, order.work) != works.end();
  });
  const bool is_over = is_any_over(works);
  pass_on(lock);
  return is_over;
}

/// For a follower that goes on to something else: the lead may have been left to it just now.
void SharedLoop::pass_on(std::unique_lock<std::mutex>& lock) noexcept {
  const bool leads = lead_or_want();
  lock.unlock();
  if (leads) release(false);
}

/// Not by who leads: what the question runs may wait for the lead.
void SharedLoop::ask(Work& work, const std::shared_ptr<Work>& held, Interrupt*& interrupt) {
  if (interrupt == nullptr) return;
  const bool is_wanted = interrupt->is_wanted();
  refuse_child();  // the program may have forked meanwhile
  if (!is_wanted) return;
  interrupt = nullptr;
  if (give_order({Order::What::interrupt, &work, held})) return;
  if (!work.is_over()) run_->enter([&] { cancel_on_engine(work, interrupted()); });
  release(false);
}

// The keeper.

void SharedLoop::keep() noexcept {
  try {
    EngineOptions options;
    options.driver = make_epoll_driver("its requests belong to no thread");
    engine_ = std::make_unique<Engine>(std::move(options));
    run_.emplace(*engine_, until_end());
  } catch (...) {
    failure_ = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    is_ready_ = true;
    over_.notify_all();
  }
  if (!failure_) serve();
  run_.reset();
  engine_.reset();
}

/// No lambda: what that captured would be gone once it is asked for more.
Task<> SharedLoop::until_end() {
  do {
    co_await end_.wait();
    do {
      co_await works_.join();
      take_orders();  // what was over last may have held the last of a communicator
    } while (!works_.empty());
    is_ending_ = begun_ != 0;  // within another scope: a callback started it when all seemed over
  } while (is_ending_);
}

void SharedLoop::serve() noexcept {
  for (;;) {
    lead_as_keeper();
    run_->enter([this] { take_orders(); });
    run_->step();
    if (run_->is_over()) return;
    const TimePoint until = run_->next_deadline();
    keeper_until_.store(until);
    keeper_watches_.store(true);
    seen_drives_ = drives_.load();
    release(true);
    watch(until);
    keeper_watches_.store(false);
  }
}

/// Waits for the keeper's turn.
void SharedLoop::lead_as_keeper() {
  Duration rest = kFirstRest;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(keeper_leads_, false)) return;
    }
    const std::uint32_t drives = drives_.load();
    const bool others_drive = is_driven_.load() || drives != seen_drives_;
    if (!others_drive) {
      const std::lock_guard lock(mutex_);
      keeper_waits_ = !lead_or_want();
      if (!keeper_waits_) return;
    }
    rest = drives != seen_drives_ ? kFirstRest : std::min(2 * rest, kLongestRest);
    seen_drives_ = drives;
    sleep_until_wanted(others_drive ? rest : Duration(std::chrono::hours(1)), false);
  }
}

void SharedLoop::watch(TimePoint until) {
  sleep_until_wanted(until_or(until, engine_->now(), std::chrono::hours(1)), true);
}

void SharedLoop::sleep_until_wanted(Duration most, bool for_engine) {
  std::array<::pollfd, 2> ready = {::pollfd{.fd = keeper_event_.number(), .events = POLLIN, .revents = 0},
                                   ::pollfd{.fd = run_->descriptor(), .events = POLLIN, .revents = 0}};
  const ::timespec timeout{.tv_sec = most.count() / 1'000'000'000, .tv_nsec = most.count() % 1'000'000'000};
  ::ppoll(ready.data(), for_engine ? 2 : 1, &timeout, nullptr);
  if ((ready[0].revents & POLLIN) == 0) return;
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = ::read(keeper_event_.number(), &rings, sizeof rings);
}

}  // namespace cohort::bindings
