// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/python/request.h>

#include <cohort/bindings/python/failure.h>

#include <fmt/format.h>

#include <chrono>

namespace cohort::python {
namespace {

/// For what an interpreter that ends has left under way.
constexpr Duration kPatience = std::chrono::seconds(2);

/// Never destroyed: an interpreter that ends may leave calls behind.
std::vector<std::shared_ptr<PyRequest>>& kept() {
  static auto* const requests = new std::vector<std::shared_ptr<PyRequest>>();
  return *requests;
}

}  // namespace

PyRequest::PyRequest(std::shared_ptr<bindings::Request> request, std::string operation, std::string given,
                     std::vector<Tensor> tensors, py::object result)
    : request_(std::move(request)),
      operation_(std::move(operation)),
      given_(std::move(given)),
      tensors_(std::move(tensors)),
      result_(std::move(result)) {}

void PyRequest::keep() { kept().push_back(shared_from_this()); }

void PyRequest::drop_finished() {
  // What they hold may run code of Python's when it ends: not while the list is changed.
  std::vector<std::shared_ptr<PyRequest>> finished;
  std::erase_if(kept(), [&](const std::shared_ptr<PyRequest>& request) {
    const bool is_over = request->done();  // once: it may be over a moment later
    if (is_over) finished.push_back(request);
    return is_over;
  });
}

void PyRequest::cancel_all() {
  const TimePoint until = after(std::chrono::steady_clock::now(), kPatience);
  for (const auto& request : std::vector(kept())) {
    if (request->done()) continue;
    const Unlocked unlocked;
    try {
      request->request_->cancel();
      (void)request->request_->wait_until(until);
    } catch (const std::exception&) {  // what it ended with is nobody's concern any more
    }
  }
  drop_finished();
}

void PyRequest::forget_all() { std::vector(std::move(kept())).clear(); }

py::object PyRequest::wait(std::optional<double> timeout_s) {
  bool is_over = true;
  TimePoint until = kNever;
  if (timeout_s) until = after(std::chrono::steady_clock::now(), duration_of(*timeout_s, "timeout"));
  try {
    wait_without_lock(
        [&](bindings::Interrupt* interrupt) { is_over = request_->wait_until(until, interrupt); });
  } catch (const Error& error) {
    throw CallFailure(error, operation_, given_);
  }
  if (!is_over) {
    PyErr_SetString(PyExc_TimeoutError,
                    fmt::format("{} is not over after {} s; it goes on: wait again, or cancel() it",
                                operation_, *timeout_s)
                        .c_str());
    throw py::error_already_set();
  }
  drop_finished();
  return outcome();
}

/// A message's is the rank that it is from.
py::object PyRequest::outcome() const {
  return operation_ == "recv" ? py::object(py::int_(request_->envelope.from)) : result_;
}

bool PyRequest::test() {
  if (done()) return true;
  const Unlocked unlocked;
  return request_->test();
}

py::object PyRequest::result() {
  drop_finished();
  try {
    request_->take();
  } catch (const Error& error) {
    throw CallFailure(error, operation_, given_);
  }
  return outcome();
}

void PyRequest::cancel() {
  const Unlocked unlocked;
  request_->cancel();
}

void PyRequest::expect(bindings::Completions& completions) { completions.expect(*request_); }

Duration duration_of(double seconds, std::string_view name) {
  constexpr double kMostSeconds = 9e9;  // of a duration in nanoseconds
  if (!(seconds > 0 && seconds <= kMostSeconds))
    throw py::value_error(fmt::format("{} of {} s: give seconds above zero", name, seconds));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace cohort::python
