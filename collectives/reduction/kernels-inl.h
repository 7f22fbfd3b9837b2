// SPDX-License-Identifier: Apache-2.0
//
// The kernels, included once per instruction set by Highway's foreach_target, hence the guard that toggles.
#if defined(COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#undef COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#else
#define COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#endif

#include <cohort/collectives/reduction/kernels.h>
#include <hwy/highway.h>

#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace cohort::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Each operation is one function of two vectors, used alike for whole vectors and for single lanes.

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::Add(left, right);
  }
};

struct Prod {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    return hn::Mul(left, right);
  }
};

/// The instructions for max and min differ between machines in zeros and NaNs, so floats are compared and
/// chosen.
struct Max {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      const V larger = hn::IfThenElse(hn::Lt(left, right), right, left);  // the left one when equal or a NaN
      const V zeros =
          hn::IfThenElse(hn::Eq(left, right), hn::And(left, right), larger);  // +0 unless both are -0
      return hn::IfThenElse(hn::IsNaN(right), right, zeros);
    } else {
      return hn::Max(left, right);
    }
  }
};

struct Min {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      const V smaller = hn::IfThenElse(hn::Lt(right, left), right, left);
      const V zeros = hn::IfThenElse(hn::Eq(left, right), hn::Or(left, right), smaller);  // -0 if either is
      return hn::IfThenElse(hn::IsNaN(right), right, zeros);
    } else {
      return hn::Min(left, right);
    }
  }
};

// What happens to a combined vector before it is stored.

struct Plain {
  template <class D, class V>
  HWY_INLINE V operator()(D, V value) const {
    return value;
  }
};

struct CanonicalNan {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    const V nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
    return hn::IfThenElse(hn::IsNaN(value), nan, value);
  }
};

template <class T>
struct Divide {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    return CanonicalNan()(d, hn::Div(value, hn::Set(d, by)));
  }
  T by;
};

// Where a pass reads and writes. `i` counts elements; a pack of values is that many vectors side by side.

/// Any number of inputs.
template <class T>
struct SomeInputs {
  explicit HWY_INLINE SomeInputs(const Reduction& r) : from(r.inputs.data()), number(r.inputs.size()) {}
  HWY_INLINE const T* operator[](std::size_t j) const { return reinterpret_cast<const T*>(from[j]); }
  HWY_INLINE std::size_t size() const { return number; }
  const std::byte* const* from;
  std::size_t number;
};

/// The common case with its pointers in registers: 115 instead of 89 GB/s for 256 KiB in the second-level
/// cache. More inputs wait for memory, and knowing their number gains nothing.
template <class T>
struct TwoInputs {
  explicit HWY_INLINE TwoInputs(const Reduction& r)
      : from{reinterpret_cast<const T*>(r.inputs[0]), reinterpret_cast<const T*>(r.inputs[1])} {}
  HWY_INLINE const T* operator[](std::size_t j) const { return from[j]; }
  HWY_INLINE std::size_t size() const { return 2; }
  const T* from[2];
};

template <class D, class T, class... V>
HWY_INLINE void store(D d, T* to, V... value) {
  ((hn::StoreU(value, d, to), to += hn::Lanes(d)), ...);
}

template <class T>
struct OneOutput {
  explicit HWY_INLINE OneOutput(const Reduction& r) : to(reinterpret_cast<T*>(r.outputs[0])) {}
  HWY_INLINE std::size_t first_aligned() const { return 0; }
  template <class D, class... V>
  HWY_INLINE void put(D d, std::size_t i, V... value) const {
    store(d, to + i, value...);
  }
  T* to;
};

template <class T>
struct SomeOutputs {
  explicit HWY_INLINE SomeOutputs(const Reduction& r) : to(r.outputs.data()), number(r.outputs.size()) {}
  HWY_INLINE std::size_t first_aligned() const { return 0; }
  template <class D, class... V>
  HWY_INLINE void put(D d, std::size_t i, V... value) const {
    for (std::size_t j = 0; j < number; ++j) store(d, reinterpret_cast<T*>(to[j]) + i, value...);
  }
  std::byte* const* to;
  std::size_t number;
};

/// Several vectors at once go past the cache; single ones are the ragged ends.
template <class T>
struct StreamedOutput {
  explicit HWY_INLINE StreamedOutput(const Reduction& r) : to(reinterpret_cast<T*>(r.outputs[0])) {}
  HWY_INLINE std::size_t first_aligned() const { return bytes_to_alignment(to) / sizeof(T); }
  template <class D, class V>
  HWY_INLINE void put(D d, std::size_t i, V value) const {
    store(d, to + i, value);
  }
  template <class D, class... V>
  HWY_INLINE void put(D d, std::size_t i, V... value) const {
    T* at = to + i;
    ((hn::Stream(value, d, at), at += hn::Lanes(d)), ...);
  }
  T* to;
};

/// Combines as many vectors as `value` has places; what those hold on entry does not matter.
template <class D, class In, class Op, class Finish, class Out, class... V>
HWY_INLINE void combine_at(D d, std::size_t i, const In& in, Op op, Finish finish, const Out& out,
                           V... value) {
  const auto* from = in[0] + i;
  ((value = hn::LoadU(d, from), from += hn::Lanes(d)), ...);
  for (std::size_t j = 1; j < in.size(); ++j) {
    from = in[j] + i;
    ((value = op(value, hn::LoadU(d, from)), from += hn::Lanes(d)), ...);
  }
  out.put(d, i, finish(d, value)...);
}

/// Elements `i` to `end`: single vectors, then half vectors, quarter vectors, ... single lanes.
template <class D, class In, class Op, class Finish, class Out>
HWY_INLINE void combine_range(D d, std::size_t i, std::size_t end, const In& in, Op op, Finish finish,
                              const Out& out) {
  for (; end - i >= hn::Lanes(d); i += hn::Lanes(d)) combine_at(d, i, in, op, finish, out, hn::Zero(d));
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::CappedTag<hn::TFromD<D>, hn::MaxLanes(D()) / 2> half;
    combine_range(half, i, end, in, op, finish, out);
  }
}

/// A whole pass. Four vectors at once hide the latency of the additions; eight gained nothing.
template <class In, class Out, class T, class Op, class Finish>
HWY_NOINLINE void combine(const Reduction& r, Op op, Finish finish) {
  const hn::ScalableTag<T> d;
  const std::size_t step = 4 * hn::Lanes(d);
  const In in(r);
  const Out out(r);
  const auto zero = hn::Zero(d);
  std::size_t i = HWY_MIN(out.first_aligned(), r.count);
  combine_range(d, 0, i, in, op, finish, out);
  for (; r.count - i >= step; i += step) combine_at(d, i, in, op, finish, out, zero, zero, zero, zero);
  combine_range(d, i, r.count, in, op, finish, out);
}

template <class T, class Op, class Finish>
void combine(const Reduction& r, Op op, Finish finish) {
  if (r.stores == Stores::streaming) return combine<SomeInputs<T>, StreamedOutput<T>, T>(r, op, finish);
  if (r.outputs.size() > 1) return combine<SomeInputs<T>, SomeOutputs<T>, T>(r, op, finish);
  if (r.inputs.size() == 2) return combine<TwoInputs<T>, OneOutput<T>, T>(r, op, finish);
  combine<SomeInputs<T>, OneOutput<T>, T>(r, op, finish);
}

template <class T>
void reduce_floats(const Reduction& r) {
  switch (r.op) {
    case ReduceOp::avg:
      if (r.average_over > 0) return combine<T>(r, Sum(), Divide<T>{static_cast<T>(r.average_over)});
      [[fallthrough]];
    case ReduceOp::sum: return combine<T>(r, Sum(), CanonicalNan());
    case ReduceOp::max: return combine<T>(r, Max(), CanonicalNan());
    case ReduceOp::min: return combine<T>(r, Min(), CanonicalNan());
    case ReduceOp::prod: return combine<T>(r, Prod(), CanonicalNan());
  }
}

/// Sums and products wrap, so they are of the unsigned type; signed overflow would be undefined.
template <class T>
void reduce_integers(const Reduction& r) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (r.op) {
    case ReduceOp::avg:
    case ReduceOp::sum: return combine<Unsigned>(r, Sum(), Plain());
    case ReduceOp::max: return combine<T>(r, Max(), Plain());
    case ReduceOp::min: return combine<T>(r, Min(), Plain());
    case ReduceOp::prod: return combine<Unsigned>(r, Prod(), Plain());
  }
}

}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles
