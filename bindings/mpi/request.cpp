// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/mpi/request.h>

#include <cohort/engine/error.h>
#include <cohort/engine/failure.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace cohort::mpi {
namespace {

/// With what is asked for while another thread drives the engine: programs that ask without end count on it.
constexpr Duration kPatience = std::chrono::microseconds(200);

bool is_wanted(const MPI_Status* status) { return status != nullptr && status != abi::kStatusIgnore; }

}  // namespace

Handles<Request>& made_requests() {
  static auto& all = *new Handles<Request>(abi::kMadeRequest, "request", abi::kErrRequest);
  return all;
}

void Request::begin(Prepared prepared) {
  is_active_ = true;
  is_cancelling_ = false;
  is_with_nobody_ = prepared.is_with_nobody_;
  kept_ = prepared.kept_;
  parts_ = {};
  if (prepared.other_ != nullptr) {
    parts_[1] = std::move(prepared.other_);
    prepared.shared().start(parts_[1]);
    return;
  }
  if (!prepared.first_) return;
  const auto* const message = std::get_if<MessageRequest>(&*prepared.first_);
  is_receive_ = prepared.second_ || (message != nullptr && !message->sends);
  if (prepared.second_) parts_[1] = prepared.begin(*prepared.second_);
  const std::size_t own = prepared.second_ ? 0 : 1;
  parts_[own] = prepared.begin(std::move(*prepared.first_));
  if (!prepared.is_buffered_) return;
  Process::get().keep_buffered(std::move(parts_[own]));
  kept_ = nullptr;
}

void Request::begin_again() {
  if (!is_persistent()) fail(abi::kErrRequest, "it is started by its call, and not persistent");
  if (is_active_) fail(abi::kErrRequest, "it was started before and is not over; wait for it");
  begin(again_());
}

bool Request::is_over() const {
  return std::ranges::all_of(parts_, [](const auto& part) { return part == nullptr || part->is_over(); });
}

bool Request::test() {
  for (const auto& part : parts_)
    if (part != nullptr && !part->test(kPatience)) return false;
  return true;
}

void Request::wait() {
  for (const auto& part : parts_)
    if (part != nullptr) (void)part->is_over_by(kNever);
}

bool Request::was_cancelled() const {
  if (!is_cancelling_ || parts_[1] == nullptr || parts_[1]->failure() == nullptr) return false;
  const std::optional<Error> error = error_in(parts_[1]->failure());
  return error && error->kind() == ErrorKind::Cancelled;
}

void Request::tell(MPI_Status* status) const {
  if (!is_wanted(status)) return;
  give_empty_status(status);
  if (was_cancelled())
    status->count_high_and_cancelled = 1;
  else if (is_with_nobody_)
    give_status_of_nobody(status);
  else if (is_receive_ && parts_[1] != nullptr && parts_[1]->failure() == nullptr)
    give_status(status, parts_[1]->envelope);
}

void Request::take(MPI_Status* status) {
  tell(status);
  is_active_ = false;
  const bool is_cancelled = was_cancelled();
  const Parts parts = std::exchange(parts_, {});
  const std::shared_ptr<Prepared::Kept> kept = std::exchange(kept_, nullptr);
  if (is_cancelled) return;
  for (const auto& part : parts) {
    if (part == nullptr) continue;
    try {
      part->wait();
    } catch (...) {
      fail_receive(part->posted.is_too_short());
    }
  }
  if (kept == nullptr) return;
  for (const auto& function : kept->when_over) function(*parts[1]);
}

void Request::cancel() {
  if (!is_active_) fail(abi::kErrRequest, "there is nothing to cancel: it is not under way");
  if (!is_receive_ || parts_[0] != nullptr || parts_[1] == nullptr) return;
  is_cancelling_ = true;
  parts_[1]->withdraw();
}

void Request::let_go() {
  if (!is_active_ || parts_[1] == nullptr) return;
  if (!is_receive_) Process::get().keep_freed(parts_[1]);
  if (kept_ == nullptr) return;
  parts_[1]->when_over([kept = kept_, function = function_, comm = handler_](bindings::Request& over) {
    if (over.failure() != nullptr) return;
    try {
      for (const auto& last : kept->when_over) last(over);
    } catch (...) {
      (void)report(function, comm, std::current_exception());
    }
  });
}

bool Request::append_to(std::vector<std::shared_ptr<bindings::Work>>& works) const {
  const std::size_t before = works.size();
  for (const auto& part : parts_)
    if (part != nullptr && !part->is_over()) works.push_back(part);
  return works.size() != before;
}

}  // namespace cohort::mpi
