// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/machines/check/plan.h>

namespace cohort::check {

/// What an operator promises: the windows of each rank, what it gives and what it gets. One specialisation
/// per operator; `bytes` is Op::size_bytes() of the whole message.
template <class Op>
struct Shape;

template <>
struct Shape<Barrier> {
  static Barrier op(const CheckOptions& options);
  static void fill(const CheckOptions& options, Plan& plan);
  static std::uint64_t least_to_all(const CheckOptions& options);
};
template <>
struct Shape<Broadcast> {
  static Broadcast op(const CheckOptions& options);
  static void fill(const CheckOptions& options, Plan& plan);
  static std::uint64_t least_to_all(const CheckOptions& options);
};
template <>
struct Shape<AllReduce> {
  static AllReduce op(const CheckOptions& options);
  static void fill(const CheckOptions& options, Plan& plan);
  static std::uint64_t least_to_all(const CheckOptions& options);
};
template <>
struct Shape<AllGather> {
  static AllGather op(const CheckOptions& options);
  static void fill(const CheckOptions& options, Plan& plan);
  static std::uint64_t least_to_all(const CheckOptions& options);
};
template <>
struct Shape<ReduceScatter> {
  static ReduceScatter op(const CheckOptions& options);
  static void fill(const CheckOptions& options, Plan& plan);
  static std::uint64_t least_to_all(const CheckOptions& options);
};

}  // namespace cohort::check
