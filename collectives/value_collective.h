// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/function_reduction.h>
#include <cohort/collectives/collective.h>

#include <span>
#include <string_view>
#include <utility>

namespace cohort {

/// A collective of one value per rank that has been asked for: awaiting it gives the result. All else is as
/// of CollectiveOf.
///
/// The value was copied into it, so that a constant or a temporary will do; a variable that it was copied
/// from stays as it is.
template <class T, class Request = Call>
class [[nodiscard]] ValueCollective {
 public:
  static constexpr bool kIsForItsResult = true;  ///< nobody gets it where it is dropped: Stream takes none

  /// `before`: the result where the call writes none.
  ValueCollective(CollectiveOf<Request>&& collective, const T& value, const T& before)
      : collective_(std::move(collective)), in_(value), out_(before) {}

  ValueCollective&& with_deadline(Duration timeout) && {
    (void)std::move(collective_).with_deadline(timeout);
    return std::move(*this);
  }
  ValueCollective&& with_algorithm(std::string_view algorithm) && {
    (void)std::move(collective_).with_algorithm(algorithm);
    return std::move(*this);
  }
  ValueCollective&& with_determinism(Determinism level) && {
    (void)std::move(collective_).with_determinism(level);
    return std::move(*this);
  }

  class Awaiter {
   public:
    explicit Awaiter(ValueCollective& value) noexcept : value_(value), inner_(value.collective_) {
      value.collective_.move_buffers(std::as_bytes(std::span(&value.in_, 1)),
                                     std::as_writable_bytes(std::span(&value.out_, 1)));
    }
    bool await_ready() const noexcept { return false; }
    template <class P>
    bool await_suspend(std::coroutine_handle<P> waiter) {
      return inner_.await_suspend(waiter);
    }
    [[nodiscard]] T await_resume() {
      inner_.await_resume();
      return value_.out_;
    }

   private:
    ValueCollective& value_;
    typename CollectiveOf<Request>::Awaiter inner_;
  };

  /// Once: what was awaited is over.
  Awaiter operator co_await() && noexcept { return Awaiter(*this); }
  Awaiter operator co_await() & = delete;

  operator Task<T>() && {  // NOLINT(google-explicit-constructor)
    collective_.may_be_dropped_ = true;
    return await_as_task(std::move(*this));
  }

 private:
  static Task<T> await_as_task(ValueCollective value) { co_return co_await std::move(value); }

  CollectiveOf<Request> collective_;
  T in_;
  T out_;
};

namespace detail {

/// From one element of a function of the program's to another.
template <class T>
CallArguments own_value_arguments(const T& in, T& out) {
  std::span<const T> from(&in, 1);
  std::span<T> to(&out, 1);
  return own_arguments<T, std::span<const T>, std::span<T>>(from, to);
}

}  // namespace detail

}  // namespace cohort
