// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/session/request.h>

#include <cohort/engine/io/wakeup.h>

#include <unistd.h>

#include <utility>

namespace cohort::bindings {

void Request::when_over(std::function<void(Request&)> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_told_) {
      when_over_.push_back(std::move(callback));
      return;
    }
  }
  callback(*this);
}

void Request::told() noexcept {
  std::vector<std::function<void(Request&)>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    is_told_ = true;
    callbacks.swap(when_over_);
  }
  for (const auto& callback : callbacks) callback(*this);
}

Completions::Completions() : state_(std::make_shared<State>(wakeup::make_event())) {}

void Completions::expect(Request& request) {
  request.when_over([state = state_](Request& over) { state->add(over.shared_from_this()); });
}

/// One signal for all that come until they are taken: with the lock, so that whoever takes finds it there.
void Completions::State::add(std::shared_ptr<Request> request) {
  const std::lock_guard lock(mutex);
  over.push_back(std::move(request));
  if (over.size() == 1) wakeup::signal_event(event.number());
}

std::vector<std::shared_ptr<Request>> Completions::take() {
  const std::lock_guard lock(state_->mutex);
  if (state_->over.empty()) return {};  // somebody else took them: reading would wait
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(state_->event.number(), &count, sizeof count);
  return std::exchange(state_->over, {});
}

}  // namespace cohort::bindings
