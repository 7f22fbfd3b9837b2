// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/supervisor.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kScratchBytes = std::size_t{64} << 10;

}  // namespace

Supervisor::Supervisor(Engine& engine, JobOutput& output)
    : engine_(engine),
      output_(output),
      scratch_(kScratchBytes),
      signals_(engine, {ProcessSignal::interrupt, ProcessSignal::terminate, ProcessSignal::hang_up}) {}

Task<> Supervisor::run_until_over(std::optional<Duration> timeout, const std::function<void()>& begin) {
  CancelScope* around = co_await current_scope();
  tasks_.emplace(around);
  listening_.emplace(&tasks_->cancel_scope());
  writing_.emplace(&tasks_->cancel_scope());
  timeout_ = timeout;
  output_.when_reader_is_gone([this] { wake(); });
  if (timeout_) plan_.time_out = after(engine_.now(), *timeout_);
  begin();
  tasks_->spawn(watch_signals());
  tasks_->spawn(supervise());
  co_await tasks_->join();
  output_.when_reader_is_gone([] {});  // the output may be others' from here on
}

Task<> Supervisor::watch_signals() {
  try {
    for (;;) {
      Task<ProcessSignal> next = with_scope(*listening_, signals_.next());
      const ProcessSignal signal = co_await next;
      new_signals_.push_back(signal);
      wake();
    }
  } catch (const Error&) {
    if (!listening_->is_cancelled()) throw;
  }
}

Task<> Supervisor::relay(OutputRelay& relay) {
  try {
    Task<> carry = with_scope(*writing_, relay.run(scratch_));
    co_await carry;
  } catch (const Error&) {
    if (!writing_->is_cancelled()) throw;
  }
  wake();
}

Task<> Supervisor::say(std::string text) {
  const std::string line = fmt::format("cohort: {}\n", text);
  ++unsaid_;
  try {
    Task<> write = with_scope(*writing_, output_.write(OutputChannel::errors, line));
    co_await write;
  } catch (const Error&) {
    if (!writing_->is_cancelled()) throw;
  }
  --unsaid_;
  wake();
}

void Supervisor::wake() noexcept {
  if (changed_.untaken_posts() == 0) changed_.post();
}

void Supervisor::decide(int status, TimePoint terminate) noexcept {
  if (verdict_) return;
  verdict_ = status;
  plan_.terminate = terminate;
}

Task<> Supervisor::supervise() {
  for (;;) {
    act(engine_.now());
    if (is_over()) break;
    engine_.timers().arm(alarm_, std::min(plan_.earliest(), own_deadline()));
    co_await changed_.wait();
  }
  listening_->cancel();
}

void Supervisor::act(TimePoint now) {
  while (!new_signals_.empty()) {
    react(new_signals_.front(), now);
    new_signals_.pop_front();
  }
  take_events(now);
  if (output_.reader_is_gone()) decide(kNoReaderStatus, now);
  if (is_due(plan_.time_out, now) && running_count_ != 0 && !verdict_) {
    decide(kTimeoutStatus, now);
    announce(fmt::format("the job is not finished after {:g} s", seconds(*timeout_)));
  }
  if (running_count_ != 0)
    end_running(now);
  else
    clear_up(now);
  if (is_due(plan_.abandon_output, now)) writing_->cancel();
}

}  // namespace cohort
