// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/tensor_list.h>
#include <cohort/engine/task.h>

#include <string_view>
#include <utility>

namespace cohort {

class CommunicatorCore;

/// What a caller gives to a collective of several tensors: lists as long as each other, of which one buffer
/// each is what a collective takes by itself. All tensors have one type.
struct TensorArguments {
  TensorList in{};            ///< not of a broadcast, nor where each input is its output's own block
  TensorList out{};           ///< may be empty on ranks that get nothing
  bool is_own_block = false;  ///< of all_gather: each rank's input is its own block of the output
  Combination reduce = ReduceOp::sum;
  Rank root = 0;
};

namespace detail {
template <Tensors In, Tensors Out>
TensorArguments tensor_arguments(In& in, Out& out, Combination op = ReduceOp::sum, Rank root = 0) {
  check_pair<Tensor<In>, Tensor<Out>>();
  return {.in = input_tensors_of<In>(in), .out = output_tensors_of<Out>(out), .reduce = op, .root = root};
}
}  // namespace detail

/// The call as it was asked for.
struct TensorCall {
  Operator op;
  TensorArguments arguments{};
  std::string_view algorithm{};  ///< asked for by name
  Duration timeout{0};           ///< zero: the communicator's
};

/// A collective of several tensors that has been asked for: awaited, given to when_all, a TaskScope or a
/// Stream as a Collective is, and with its promises on order, failure, deadline and cancellation, for all
/// tensors together. Small tensors travel in one message, large ones by themselves (tensor_plan.h).
///
/// Lists and buffers belong to it until it completes. The ranks give equally many tensors, of equal sizes:
/// else Mismatch, which names the tensor.
class [[nodiscard]] TensorCollective {
 public:
  class Awaiter;

  /// Throws InvalidArgument for arguments that are wrong on this rank alone, naming the tensor.
  TensorCollective(CommunicatorCore& core, const TensorCall& call);
  TensorCollective(TensorCollective&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)),
        call_(other.call_),
        may_be_dropped_(other.may_be_dropped_) {}
  TensorCollective& operator=(TensorCollective&&) = delete;
  ~TensorCollective() {
    if (core_ != nullptr && !may_be_dropped_) [[unlikely]]
      report_never_awaited();
  }

  /// Another time limit than the communicator's, for all tensors together.
  TensorCollective&& with_deadline(Duration timeout) && {
    call_.timeout = timeout;
    return std::move(*this);
  }
  /// The algorithm of that name, for each message, on every rank. Throws InvalidArgument if it cannot run one
  /// of them here.
  TensorCollective&& with_algorithm(std::string_view algorithm) &&;

  /// Once: what was awaited is over.
  Awaiter operator co_await() && noexcept;
  Awaiter operator co_await() & = delete;

  operator Task<>() && {  // NOLINT(google-explicit-constructor)
    may_be_dropped_ = true;
    return await_as_task(std::move(*this));
  }

 private:
  static Task<> await_as_task(TensorCollective collective);
  void start();
  [[gnu::cold]] void report_never_awaited() const noexcept;

  CommunicatorCore* core_;  ///< null once it is awaited, or moved from
  TensorCall call_;
  bool may_be_dropped_ = false;  ///< whoever has the task answers for it
  Task<> task_;
};

class TensorCollective::Awaiter {
 public:
  explicit Awaiter(TensorCollective& collective) noexcept : collective_(collective) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    collective_.start();
    return Task<>::Awaiter(collective_.task_.handle()).await_suspend(waiter);
  }
  void await_resume() { collective_.task_.handle().promise().take(); }

 private:
  TensorCollective& collective_;
};

inline TensorCollective::Awaiter TensorCollective::operator co_await() && noexcept { return Awaiter(*this); }

}  // namespace cohort
