// SPDX-License-Identifier: Apache-2.0
//
// The kernels, included once per instruction set by Highway's foreach_target, hence the guard that toggles.
#if defined(COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#undef COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#else
#define COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#endif

#include <cohort/collectives/memory/reduction/kernels.h>
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

/// Divides if there is a divisor. The branch costs nothing next to the memory, a second copy of the kernels
/// would.
template <class T>
struct Average {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    if (by > 0) value = hn::Div(value, hn::Set(d, by));
    return CanonicalNan()(d, value);
  }
  T by;
};

template <class T>
HWY_INLINE const T* input(const Reduction& r, std::size_t j) {
  return reinterpret_cast<const T*>(r.inputs[j]);
}

template <class T>
HWY_INLINE T* output(const Reduction& r, std::size_t j) {
  return reinterpret_cast<T*>(r.outputs[j]);
}

// The ragged ends of a pass.

/// Elements `i` to `end`: single vectors, and then one of which only the first lanes count, or, where an
/// instruction would touch the others all the same, half vectors, quarter vectors, ... single lanes.
template <class D, class Op, class Finish>
HWY_INLINE void combine_range(D d, const Reduction& r, std::size_t i, std::size_t end, Op op, Finish finish) {
  using T = hn::TFromD<D>;
  for (; end - i >= hn::Lanes(d); i += hn::Lanes(d)) {
    auto value = hn::LoadU(d, input<T>(r, 0) + i);
    for (std::size_t j = 1; j < r.inputs.size(); ++j) value = op(value, hn::LoadU(d, input<T>(r, j) + i));
    value = finish(d, value);
    for (std::size_t j = 0; j < r.outputs.size(); ++j) hn::StoreU(value, d, output<T>(r, j) + i);
  }
  if constexpr (!HWY_MEM_OPS_MIGHT_FAULT) {
    if (i == end) return;
    const auto lanes = hn::FirstN(d, end - i);
    auto value = hn::MaskedLoad(lanes, d, input<T>(r, 0) + i);
    for (std::size_t j = 1; j < r.inputs.size(); ++j)
      value = op(value, hn::MaskedLoad(lanes, d, input<T>(r, j) + i));
    value = finish(d, value);
    for (std::size_t j = 0; j < r.outputs.size(); ++j) hn::BlendedStore(value, lanes, d, output<T>(r, j) + i);
  } else if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::CappedTag<T, hn::MaxLanes(D()) / 2> half;
    combine_range(half, r, i, end, op, finish);
  }
}

template <class T, class Op, class Finish>
HWY_NOINLINE void combine_ragged(const Reduction& r, std::size_t i, std::size_t end, Op op, Finish finish) {
  combine_range(hn::ScalableTag<T>(), r, i, end, op, finish);
}

// The body: blocks of four vectors, which hide the latency of the additions; eight gained nothing. A pack of
// values is that many vectors side by side.

/// Input j >= 1 stands at from[kMaxFanIn - number + j], so that the last one is always from[7]: see
/// combine_block().
///
/// The array is the caller's, so that the rest of this lives in registers: with two inputs no pointer is
/// loaded in the loop. Such loads wait now and then for a streaming store to the same offset of another page
/// (12 against 16 GB/s).
template <class T>
struct Inputs {
  HWY_INLINE Inputs(const Reduction& r, const T* (&right_aligned)[kMaxFanIn])
      : number(r.inputs.size()), first(input<T>(r, 0)), last(input<T>(r, number - 1)), from(right_aligned) {
    for (std::size_t j = 1; j < number; ++j) right_aligned[kMaxFanIn - number + j] = input<T>(r, j);
  }
  std::size_t number;
  const T* first;
  const T* last;
  const T* const* from;
};

template <class D, class T, class... V>
HWY_INLINE void load(D d, const T* from, V&... value) {
  ((value = hn::LoadU(d, from), from += hn::Lanes(d)), ...);
}

template <class D, class T, class Op, class... V>
HWY_INLINE void apply(D d, const T* from, Op op, V&... value) {
  ((value = op(value, hn::LoadU(d, from)), from += hn::Lanes(d)), ...);
}

template <class D, class T, class... V>
HWY_INLINE void store(D d, T* to, bool is_streaming, V... value) {
  if (is_streaming) {
    ((hn::Stream(value, d, to), to += hn::Lanes(d)), ...);
  } else {
    ((hn::StoreU(value, d, to), to += hn::Lanes(d)), ...);
  }
}

/// Combines as many vectors as there are values; what those hold on entry does not matter.
///
/// A jump into straight code instead of a loop over the inputs, which costs 15 to 30 %, also where memory is
/// the limit (four inputs of 64 MiB with AVX2: 6.1 against 8.5 GB/s). As fast as one function per number of
/// inputs.
template <class D, class T, class Op, class... V>
HWY_INLINE void combine_block(D d, const Inputs<T>& in, std::size_t i, Op op, V&... value) {
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
}

/// To one output or two.
template <class T, class Op, class Finish>
HWY_NOINLINE void combine_blocks(const Reduction& r, Op op, Finish finish) {
  const hn::ScalableTag<T> d;
  const std::size_t block = 4 * hn::Lanes(d);
  const T* right_aligned[kMaxFanIn] = {};
  const Inputs<T> in(r, right_aligned);
  T* const to = output<T>(r, 0);
  T* const also_to = r.outputs.size() == 2 ? output<T>(r, 1) : nullptr;
  const bool is_streaming = r.stores == Stores::streaming;
  const std::size_t count = r.count;

  std::size_t i = is_streaming ? HWY_MIN(bytes_to_alignment(to) / sizeof(T), count) : 0;
  if (i > 0) combine_ragged<T>(r, 0, i, op, finish);
  for (; count - i >= block; i += block) {
    hn::Vec<decltype(d)> v0, v1, v2, v3;
    combine_block(d, in, i, op, v0, v1, v2, v3);
    v0 = finish(d, v0);
    v1 = finish(d, v1);
    v2 = finish(d, v2);
    v3 = finish(d, v3);
    store(d, to + i, is_streaming, v0, v1, v2, v3);
    if (also_to != nullptr) store(d, also_to + i, is_streaming, v0, v1, v2, v3);
  }
  if (i < count) combine_ragged<T>(r, i, count, op, finish);
}

/// The same to several outputs: vector by vector, each stored everywhere as it is made. Against blocks, four
/// outputs take 0.86 to 0.97 of the time, two that are streamed 0.87 to 0.96; two cached ones up to 1.13.
/// Of two inputs: no jump by their number for every vector, which took as long as the memory.
template <class T, bool kAreTwo, class Op, class Finish>
HWY_NOINLINE void combine_for_many(const Reduction& r, Op op, Finish finish) {
  const hn::ScalableTag<T> d;
  const T* right_aligned[kMaxFanIn] = {};
  const Inputs<T> in(r, right_aligned);
  T* const to = output<T>(r, 0);
  T* const also_to = output<T>(r, 1);
  const std::size_t outputs = r.outputs.size();
  const bool is_streaming = r.stores == Stores::streaming;
  const std::size_t count = r.count;

  std::size_t i = is_streaming ? HWY_MIN(bytes_to_alignment(to) / sizeof(T), count) : 0;
  if (i > 0) combine_ragged<T>(r, 0, i, op, finish);
  for (; count - i >= hn::Lanes(d); i += hn::Lanes(d)) {
    auto value = hn::LoadU(d, in.first + i);
    if constexpr (kAreTwo)
      value = op(value, hn::LoadU(d, in.last + i));
    else
      combine_block(d, in, i, op, value);
    value = finish(d, value);
    store(d, to + i, is_streaming, value);
    store(d, also_to + i, is_streaming, value);
    for (std::size_t j = 2; j < outputs; ++j) store(d, output<T>(r, j) + i, is_streaming, value);
  }
  if (i < count) combine_ragged<T>(r, i, count, op, finish);
}

/// A whole pass. A message of a few elements has no block, and pays for none.
template <class T, class Op, class Finish>
HWY_INLINE void combine(const Reduction& r, Op op, Finish finish) {
  const bool has_block = r.count >= 4 * hn::Lanes(hn::ScalableTag<T>());
  if (!has_block) return combine_ragged<T>(r, 0, r.count, op, finish);
  const bool is_for_many = r.outputs.size() > 2 || (r.outputs.size() == 2 && r.stores == Stores::streaming);
  if (!is_for_many) return combine_blocks<T>(r, op, finish);
  r.inputs.size() == 2 ? combine_for_many<T, true>(r, op, finish) : combine_for_many<T, false>(r, op, finish);
}

template <class T>
void reduce_floats(const Reduction& r) {
  switch (r.op) {
    case ReduceOp::avg:
    case ReduceOp::sum: return combine<T>(r, Sum(), Average<T>{static_cast<T>(r.average_over)});
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
