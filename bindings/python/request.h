// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/tensor.h>
#include <cohort/bindings/session/session.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cohort::python {

/// Of seconds, as Python gives times. Throws ValueError for none above zero.
[[nodiscard]] Duration duration_of(double seconds, std::string_view name);

/// A call that was started from Python: with the tensors that it works on, which live until it is over,
/// whoever still has this. Threads: with the interpreter's lock.
class PyRequest : public std::enable_shared_from_this<PyRequest> {
 public:
  PyRequest(std::shared_ptr<bindings::Request> request, std::string operation, std::string given,
            std::vector<Tensor> tensors, py::object result);

  /// Before it is started; from then on it is kept until it is over.
  void keep();
  /// Drops those that are over from what is kept.
  static void drop_finished();

  /// Cancels all that are kept, and waits a while for their end.
  static void cancel_all();
  /// Lets go of all that are kept: a child of fork has none under way.
  static void forget_all();

  /// Waits and gives the result. `timeout_s`: TimeoutError if it is not over by then, and it goes on.
  py::object wait(std::optional<double> timeout_s);
  [[nodiscard]] bool test();
  /// Whether it is over, without giving it a turn.
  [[nodiscard]] bool done() const noexcept { return request_->is_over(); }
  /// The result of what is over, or its failure thrown.
  py::object result();
  void cancel();
  /// What tells that it is over; also if it is already.
  void expect(bindings::Completions& completions);
  /// The request as a number that Completions knows it by.
  [[nodiscard]] std::uintptr_t id() const noexcept {
    return reinterpret_cast<std::uintptr_t>(request_.get());
  }

 private:
  [[nodiscard]] py::object outcome() const;

  std::shared_ptr<bindings::Request> request_;
  std::string operation_;
  std::string given_;
  std::vector<Tensor> tensors_;
  py::object result_;
};

}  // namespace cohort::python
