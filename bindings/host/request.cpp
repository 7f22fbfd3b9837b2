// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/host/request.h>

#include <cohort/engine/io/wakeup.h>

#include <unistd.h>

#include <utility>

namespace cohort::bindings {

void Request::when_over(std::function<void(Request&)> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_told_) {
      when_over_ = std::move(callback);
      return;
    }
  }
  callback(*this);
}

void Request::told() noexcept {
  std::function<void(Request&)> callback;
  {
    const std::lock_guard lock(mutex_);
    is_told_ = true;
    callback = std::move(when_over_);
  }
  if (callback) callback(*this);
}

Completions::Completions() : state_(std::make_shared<State>(wakeup::make_event())) {}

void Completions::expect(Request& request) {
  request.when_over([state = state_](Request& over) { state->add(over.shared_from_this()); });
}

/// One signal for all that come until they are taken.
void Completions::State::add(std::shared_ptr<Request> request) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex);
    is_first = over.empty();
    over.push_back(std::move(request));
  }
  if (is_first) wakeup::signal_event(event.number());
}

std::vector<std::shared_ptr<Request>> Completions::take() {
  const std::lock_guard lock(state_->mutex);
  if (state_->over.empty()) return {};  // somebody else took them: reading would wait
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(state_->event.number(), &count, sizeof count);
  return std::exchange(state_->over, {});
}

}  // namespace cohort::bindings
