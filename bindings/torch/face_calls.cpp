// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/face_calls.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace cohort::torch_face {
namespace {

using bindings::Request;

class Started final : public Pending {
 public:
  explicit Started(std::shared_ptr<Request> request) : request_(std::move(request)) {}
  bool is_over() override { return request_->test(); }
  bool wait(double timeout_s, bindings::Interrupt* interrupt) override {
    const TimePoint until =
        timeout_s > 0 ? after(std::chrono::steady_clock::now(), duration_of(timeout_s)) : kNever;
    return request_->is_over_by(until, interrupt);
  }

 private:
  std::shared_ptr<Request> request_;
};

}  // namespace

Duration duration_of(double seconds) {
  constexpr double kMostSeconds = 9e9;  // of a duration in nanoseconds
  const double within = std::isfinite(seconds) ? std::min(seconds, kMostSeconds) : kMostSeconds;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::max(within, 0.0)));
}

std::span<std::byte> bytes_of(const Memory& memory) {
  return {static_cast<std::byte*>(memory.data), memory.bytes};
}

std::string GroupNames::explain(const Error& error) const {
  std::string text = error.what();
  const bool is_said = text.find("(world rank ") != std::string::npos;
  if (is_said || !error.culprit() || *error.culprit() >= world_ranks.size()) return text;
  return fmt::format("{} (rank {} of '{}' is rank {} of the world)", text, *error.culprit(), name,
                     world_ranks[*error.culprit()]);
}

std::shared_ptr<Pending> launch(bindings::SharedCommunicator& comm, const std::shared_ptr<Request>& request,
                                std::function<void(const Outcome&)> over,
                                std::shared_ptr<const GroupNames> group, Duration patience) {
  request->when_over([over = std::move(over), group = std::move(group)](Request& done) {
    Outcome outcome = outcome_of([&] { done.take(); }, *group);
    outcome.from = done.envelope.from;
    over(outcome);
  });
  comm.start(request, patience);
  return std::make_shared<Started>(request);
}

}  // namespace cohort::torch_face
