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

/// Input j >= 1 stands at from[kMaxFanIn - number + j], so that the last one is always from[7]: see
/// combine_block().
///
/// The array is the caller's, so that the rest of this lives in registers: with two inputs no pointer is
/// loaded in the loop. Such loads wait now and then for a streaming store to the same offset of another page
/// (12 against 16 GB/s).
template <class T>
struct Inputs {
  HWY_INLINE Inputs(const Reduction& r, const T* (&right_aligned)[kMaxFanIn])
      : number(r.inputs.size()), first(input(r, 0)), last(input(r, number - 1)), from(right_aligned) {
    for (std::size_t j = 1; j < number; ++j) right_aligned[kMaxFanIn - number + j] = input(r, j);
  }
  static HWY_INLINE const T* input(const Reduction& r, std::size_t j) {
    return reinterpret_cast<const T*>(r.inputs[j]);
  }

  std::size_t number;
  const T* first;
  const T* last;
  const T* const* from;
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

template <class D, class T, class... V>
HWY_INLINE void load(D d, const T* from, V&... value) {
  ((value = hn::LoadU(d, from), from += hn::Lanes(d)), ...);
}

template <class D, class T, class Op, class... V>
HWY_INLINE void apply(D d, const T* from, Op op, V&... value) {
  ((value = op(value, hn::LoadU(d, from)), from += hn::Lanes(d)), ...);
}

/// Combines as many vectors as there are values; what those hold on entry does not matter.
///
/// A jump into straight code instead of a loop over the inputs, which costs 15 to 30 %, also where memory is
/// the limit (four inputs of 64 MiB with AVX2: 6.1 against 8.5 GB/s). As fast as one function per number of
/// inputs.
template <class D, class T, class Op, class Finish, class Out, class... V>
HWY_INLINE void combine_block(D d, std::size_t i, const Inputs<T>& in, Op op, Finish finish, const Out& out,
                              V... value) {
  static_assert(kMaxFanIn == 8);
  load(d, in.first + i, value...);
  switch (in.number) {
    case 8: apply(d, in.from[1] + i, op, value...); [[fallthrough]];
    case 7: apply(d, in.from[2] + i, op, value...); [[fallthrough]];
    case 6: apply(d, in.from[3] + i, op, value...); [[fallthrough]];
    case 5: apply(d, in.from[4] + i, op, value...); [[fallthrough]];
    case 4: apply(d, in.from[5] + i, op, value...); [[fallthrough]];
    case 3: apply(d, in.from[6] + i, op, value...); [[fallthrough]];
    case 2: apply(d, in.last + i, op, value...); [[fallthrough]];
    default: break;
  }
  out.put(d, i, finish(d, value)...);
}

template <class D, class T, class Op, class Finish, class Out>
HWY_INLINE void combine_one(D d, std::size_t i, const Inputs<T>& in, Op op, Finish finish, const Out& out) {
  auto value = hn::LoadU(d, in.first + i);
  for (std::size_t j = kMaxFanIn - in.number + 1; j < kMaxFanIn; ++j) apply(d, in.from[j] + i, op, value);
  out.put(d, i, finish(d, value));
}

/// Elements `i` to `end`: single vectors, then half vectors, quarter vectors, ... single lanes.
template <class D, class T, class Op, class Finish, class Out>
HWY_INLINE void combine_range(D d, std::size_t i, std::size_t end, const Inputs<T>& in, Op op, Finish finish,
                              const Out& out) {
  for (; end - i >= hn::Lanes(d); i += hn::Lanes(d)) combine_one(d, i, in, op, finish, out);
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::CappedTag<T, hn::MaxLanes(D()) / 2> half;
    combine_range(half, i, end, in, op, finish, out);
  }
}

/// A whole pass. Four vectors at once hide the latency of the additions; eight gained nothing.
template <class Out, class T, class Op, class Finish>
HWY_NOINLINE void combine_all(const Reduction& r, Op op, Finish finish) {
  const hn::ScalableTag<T> d;
  const std::size_t block = 4 * hn::Lanes(d);
  const T* right_aligned[kMaxFanIn] = {};
  const Inputs<T> in(r, right_aligned);
  const Out out(r);
  const std::size_t count = r.count;
  const auto zero = hn::Zero(d);
  std::size_t i = HWY_MIN(out.first_aligned(), count);
  combine_range(d, 0, i, in, op, finish, out);
  for (; count - i >= block; i += block) combine_block(d, i, in, op, finish, out, zero, zero, zero, zero);
  combine_range(d, i, count, in, op, finish, out);
}

template <class T, class Op, class Finish>
void combine(const Reduction& r, Op op, Finish finish) {
  if (r.stores == Stores::streaming) return combine_all<StreamedOutput<T>, T>(r, op, finish);
  if (r.outputs.size() == 1) return combine_all<OneOutput<T>, T>(r, op, finish);
  combine_all<SomeOutputs<T>, T>(r, op, finish);
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
