// SPDX-License-Identifier: Apache-2.0
//
// The kernels, included once per instruction set by Highway's foreach_target, hence the guard that toggles.
#if defined(COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#undef COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#else
#define COHORT_COLLECTIVES_REDUCTION_KERNELS_INL_H_
#endif

#include <cohort/collectives/memory/reduction/codecs-inl.h>
#include <cohort/collectives/memory/reduction/kernels.h>
#include <hwy/highway.h>

#include <cstring>
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

/// Of bytes, as no instruction does it: those at even places and those at odd ones, in lanes of two.
struct Prod {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    if constexpr (HWY_TARGET != HWY_SCALAR && sizeof(hn::TFromV<V>) == 1) {
      const hn::DFromV<V> d;
      const hn::Repartition<std::uint16_t, decltype(d)> pairs;
      const auto a = hn::BitCast(pairs, left);
      const auto b = hn::BitCast(pairs, right);
      const auto even = hn::And(hn::Mul(a, b), hn::Set(pairs, std::uint16_t{0xff}));
      const auto odd = hn::Mul(hn::ShiftRight<8>(a), hn::ShiftRight<8>(b));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
    } else {
      return hn::Mul(left, right);
    }
  }
};

/// The larger one, or the smaller one: flipped bits turn the order of values round. Integers are compared as
/// signed ones, so the unsigned flip their highest bit besides. One kernel for all four.
template <class T>
struct Extreme {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    const V flips = hn::Set(hn::DFromV<V>(), flipped);
    return hn::Xor(larger(hn::Xor(left, flips), hn::Xor(right, flips)), flips);
  }
  /// The instructions for it differ between machines in zeros and NaNs, so floats are compared and chosen.
  template <class V>
  static HWY_INLINE V larger(V left, V right) {
    if constexpr (hwy::IsFloat<T>()) {
      const V greater = hn::IfThenElse(hn::Lt(left, right), right, left);  // the left one when equal or a NaN
      const V zeros =
          hn::IfThenElse(hn::Eq(left, right), hn::And(left, right), greater);  // +0 unless both are -0
      return hn::IfThenElse(hn::IsNaN(right), right, zeros);
    } else {
      return hn::Max(left, right);
    }
  }
  T flipped;
};

/// And, or, xor: (left & right & both) ^ ((left ^ right) & one). One kernel for the three.
template <class T>
struct Logic {
  template <class V>
  HWY_INLINE V operator()(V left, V right) const {
    const hn::DFromV<V> d;
    return hn::Xor(hn::And(hn::And(left, right), hn::Set(d, both)),
                   hn::And(hn::Xor(left, right), hn::Set(d, one)));
  }
  T both;  ///< ones where a bit that both have counts
  T one;   ///< ones where a bit that one has counts
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
template <class T, class Then>
struct Average {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    if (by > 0) value = hn::Div(value, hn::Set(d, by));
    return Then()(d, value);
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

template <class Codec, class D>
using Stored = hn::Rebind<typename Codec::Element, D>;

template <class Codec, class D>
HWY_INLINE hn::Vec<D> load_one(Codec, D d, const typename Codec::Element* from) {
  return Codec::decode(d, hn::LoadU(Stored<Codec, D>(), from));
}

// The ragged ends of a pass.

/// Elements `i` to `end`, fewer than a vector has: by way of a whole one. Where an instruction for some lanes
/// would touch the others all the same, and halving would take long to come down to small elements.
template <class Codec, class D, class Op, class Finish>
HWY_INLINE void combine_copied(Codec codec, D d, const Reduction& r, std::size_t i, std::size_t end, Op op,
                               Finish finish) {
  using T = typename Codec::Element;
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  const std::size_t bytes = (end - i) * sizeof(T);
  std::memcpy(lanes, input<T>(r, 0) + i, bytes);
  auto value = load_one(codec, d, lanes);
  for (std::size_t j = 1; j < r.inputs.size(); ++j) {
    std::memcpy(lanes, input<T>(r, j) + i, bytes);
    value = op(value, load_one(codec, d, lanes));
  }
  hn::StoreU(Codec::encode(d, finish(d, value)), Stored<Codec, D>(), lanes);
  for (std::size_t j = 0; j < r.outputs.size(); ++j) std::memcpy(output<T>(r, j) + i, lanes, bytes);
}

/// Elements `i` to `end`: single vectors, and then one of which only the first lanes count, or, where an
/// instruction would touch the others all the same, half vectors, quarter vectors, ... single lanes.
template <class Codec, class D, class Op, class Finish>
HWY_INLINE void combine_range(Codec codec, D d, const Reduction& r, std::size_t i, std::size_t end, Op op,
                              Finish finish) {
  using T = typename Codec::Element;
  const Stored<Codec, D> stored;
  for (; end - i >= hn::Lanes(d); i += hn::Lanes(d)) {
    auto value = load_one(codec, d, input<T>(r, 0) + i);
    for (std::size_t j = 1; j < r.inputs.size(); ++j)
      value = op(value, load_one(codec, d, input<T>(r, j) + i));
    const auto result = Codec::encode(d, finish(d, value));
    for (std::size_t j = 0; j < r.outputs.size(); ++j) hn::StoreU(result, stored, output<T>(r, j) + i);
  }
  if constexpr (!HWY_MEM_OPS_MIGHT_FAULT) {
    if (i == end) return;
    const auto lanes = hn::FirstN(stored, end - i);
    auto value = Codec::decode(d, hn::MaskedLoad(lanes, stored, input<T>(r, 0) + i));
    for (std::size_t j = 1; j < r.inputs.size(); ++j)
      value = op(value, Codec::decode(d, hn::MaskedLoad(lanes, stored, input<T>(r, j) + i)));
    const auto result = Codec::encode(d, finish(d, value));
    for (std::size_t j = 0; j < r.outputs.size(); ++j)
      hn::BlendedStore(result, lanes, stored, output<T>(r, j) + i);
  } else if constexpr (hn::MaxLanes(D()) > 1 && sizeof(T) < 4) {
    if (i < end) combine_copied(codec, d, r, i, end, op, finish);
  } else if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::CappedTag<typename Codec::Lane, hn::MaxLanes(D()) / 2> half;
    combine_range(codec, half, r, i, end, op, finish);
  }
}

template <class Codec, class Op, class Finish>
HWY_NOINLINE void combine_ragged(Codec codec, const Reduction& r, std::size_t i, std::size_t end, Op op,
                                 Finish finish) {
  combine_range(codec, hn::ScalableTag<typename Codec::Lane>(), r, i, end, op, finish);
}

// The body: blocks of four vectors, which hide the latency of the additions; more gain nothing. A pack of
// values is that many vectors side by side.

/// Input j >= 1 stands at from[kMaxFanIn - number + j], so that the last one is always from[7]: see
/// combine_block().
///
/// The array is the caller's, so that the rest of this lives in registers: with two inputs no pointer is
/// loaded in the loop. Such loads wait now and then for a streaming store to the same offset of another page.
template <class T>
struct Inputs {
  HWY_INLINE Inputs(const Reduction& r, const T* (&right_aligned)[kMaxFanIn])
      : number(HWY_MIN(r.inputs.size(), kMaxFanIn)),
        first(input<T>(r, 0)),
        last(input<T>(r, number - 1)),
        from(right_aligned),
        more(r.inputs.subspan(number)) {
    for (std::size_t j = 1; j < number; ++j) right_aligned[kMaxFanIn - number + j] = input<T>(r, j);
  }
  std::size_t number;
  const T* first;
  const T* last;
  const T* const* from;
  std::span<const std::byte* const> more;  ///< beyond kMaxFanIn
};

template <class Codec, class D, class T, class... V>
HWY_INLINE void load(Codec codec, D d, const T* from, V&... value) {
  ((value = load_one(codec, d, from), from += hn::Lanes(d)), ...);
}

template <class Codec, class D, class T, class Op, class... V>
HWY_INLINE void apply(Codec codec, D d, const T* from, Op op, V&... value) {
  ((value = op(value, load_one(codec, d, from)), from += hn::Lanes(d)), ...);
}

/// Parts of vectors that are too small to stream go through the cache.
template <class Codec, class D, class T, class... V>
HWY_INLINE void store(Codec, D d, T* to, bool is_streaming, V... value) {
  const Stored<Codec, D> stored;
  constexpr bool kMayStream = hn::MaxLanes(D()) == 1 || hn::MaxLanes(D()) * sizeof(T) >= 16;
  if (kMayStream && is_streaming) {
    ((hn::Stream(value, stored, to), to += hn::Lanes(d)), ...);
  } else {
    ((hn::StoreU(value, stored, to), to += hn::Lanes(d)), ...);
  }
}

/// Combines as many vectors as there are values; what those hold on entry does not matter.
///
/// A jump into straight code: a loop over the inputs is slower, even where memory is the limit, and a
/// function for each number of inputs would be no faster.
template <class Codec, class D, class T, class Op, class... V>
HWY_INLINE void combine_block(Codec codec, D d, const Inputs<T>& in, std::size_t i, Op op, V&... value) {
  static_assert(kMaxFanIn == 8);
  load(codec, d, in.first + i, value...);
  switch (in.number) {
    case 8: apply(codec, d, in.from[1] + i, op, value...); [[fallthrough]];
    case 7: apply(codec, d, in.from[2] + i, op, value...); [[fallthrough]];
    case 6: apply(codec, d, in.from[3] + i, op, value...); [[fallthrough]];
    case 5: apply(codec, d, in.from[4] + i, op, value...); [[fallthrough]];
    case 4: apply(codec, d, in.from[5] + i, op, value...); [[fallthrough]];
    case 3: apply(codec, d, in.from[6] + i, op, value...); [[fallthrough]];
    case 2: apply(codec, d, in.last + i, op, value...); [[fallthrough]];
    default: break;
  }
  if constexpr (!Codec::kIsExact)
    for (const std::byte* const from : in.more)
      apply(codec, d, reinterpret_cast<const T*>(from) + i, op, value...);
}

/// Four vectors at a time, each block stored everywhere as it is made.
template <class Codec, class Op, class Finish>
HWY_NOINLINE void combine_blocks(Codec codec, const Reduction& r, Op op, Finish finish) {
  using T = typename Codec::Element;
  const hn::ScalableTag<typename Codec::Lane> d;
  const std::size_t block = 4 * hn::Lanes(d);
  const T* right_aligned[kMaxFanIn] = {};
  const Inputs<T> in(r, right_aligned);
  T* const to = output<T>(r, 0);
  const std::size_t outputs = r.outputs.size();
  T* const also_to = outputs > 1 ? output<T>(r, 1) : nullptr;
  const bool is_streaming = r.stores == Stores::streaming;
  const std::size_t count = r.count;

  std::size_t i = is_streaming ? HWY_MIN(bytes_to_alignment(to) / sizeof(T), count) : 0;
  if (i > 0) combine_ragged(codec, r, 0, i, op, finish);
  for (; count - i >= block; i += block) {
    hn::Vec<decltype(d)> v0, v1, v2, v3;
    combine_block(codec, d, in, i, op, v0, v1, v2, v3);
    const auto r0 = Codec::encode(d, finish(d, v0));
    const auto r1 = Codec::encode(d, finish(d, v1));
    const auto r2 = Codec::encode(d, finish(d, v2));
    const auto r3 = Codec::encode(d, finish(d, v3));
    store(codec, d, to + i, is_streaming, r0, r1, r2, r3);
    if (also_to != nullptr) store(codec, d, also_to + i, is_streaming, r0, r1, r2, r3);
    for (std::size_t j = 2; j < outputs; ++j)
      store(codec, d, output<T>(r, j) + i, is_streaming, r0, r1, r2, r3);
  }
  if (i < count) combine_ragged(codec, r, i, count, op, finish);
}

/// The same past the cache to several outputs: vector by vector, so that few lines are being gathered at a
/// time; through the cache, blocks are faster. Two inputs have code of their own: a jump by their number for
/// every vector would take as long as the memory.
template <bool kAreTwo, class Codec, class Op, class Finish>
HWY_NOINLINE void combine_for_many(Codec codec, const Reduction& r, Op op, Finish finish) {
  using T = typename Codec::Element;
  const hn::ScalableTag<typename Codec::Lane> d;
  const T* right_aligned[kMaxFanIn] = {};
  const Inputs<T> in(r, right_aligned);
  T* const to = output<T>(r, 0);
  T* const also_to = output<T>(r, 1);
  const std::size_t outputs = r.outputs.size();
  const bool is_streaming = r.stores == Stores::streaming;
  const std::size_t count = r.count;

  std::size_t i = is_streaming ? HWY_MIN(bytes_to_alignment(to) / sizeof(T), count) : 0;
  if (i > 0) combine_ragged(codec, r, 0, i, op, finish);
  for (; count - i >= hn::Lanes(d); i += hn::Lanes(d)) {
    auto value = load_one(codec, d, in.first + i);
    if constexpr (kAreTwo)
      value = op(value, load_one(codec, d, in.last + i));
    else
      combine_block(codec, d, in, i, op, value);
    const auto result = Codec::encode(d, finish(d, value));
    store(codec, d, to + i, is_streaming, result);
    store(codec, d, also_to + i, is_streaming, result);
    for (std::size_t j = 2; j < outputs; ++j) store(codec, d, output<T>(r, j) + i, is_streaming, result);
  }
  if (i < count) combine_ragged(codec, r, i, count, op, finish);
}

/// A whole pass. A message of a few elements has no block, and pays for none.
template <class Codec, class Op, class Finish>
HWY_INLINE void combine(Codec codec, const Reduction& r, Op op, Finish finish) {
  const bool has_block = r.count >= 4 * hn::Lanes(hn::ScalableTag<typename Codec::Lane>());
  if (!has_block) return combine_ragged(codec, r, 0, r.count, op, finish);
  const bool is_for_many = r.outputs.size() > 1 && r.stores == Stores::streaming;
  if constexpr (Codec::kIsExact) {
    if (is_for_many && r.inputs.size() == 2) return combine_for_many<true>(codec, r, op, finish);
    if (is_for_many) return combine_for_many<false>(codec, r, op, finish);
  }
  combine_blocks(codec, r, op, finish);
}

/// `Finish` comes behind each combination; what is rounded afterwards needs none.
template <class Codec, class Finish>
HWY_INLINE void reduce_floats(Codec codec, const Reduction& r, Finish finish) {
  using T = typename Codec::Lane;
  switch (r.op) {
    case ReduceOp::avg:
    case ReduceOp::scaled_sum:
    case ReduceOp::sum: return combine(codec, r, Sum(), Average<T, Finish>{static_cast<T>(r.average_over)});
    case ReduceOp::max: return combine(codec, r, Extreme<T>{T{0}}, finish);
    case ReduceOp::min: return combine(codec, r, Extreme<T>{-T{0}}, finish);
    case ReduceOp::prod: return combine(codec, r, Prod(), finish);
    default: return;
  }
}

/// Sums and products wrap, so they are of the unsigned type; signed overflow would be undefined.
template <class T>
HWY_INLINE void reduce_integers(const Reduction& r) {
  using Unsigned = std::make_unsigned_t<T>;
  const bool is_unsigned = kind_of(r.type) == DataKind::unsigned_integer;
  const T highest = std::numeric_limits<T>::min();  // the bit that makes an unsigned one large
  switch (r.op) {
    case ReduceOp::avg:
    case ReduceOp::scaled_sum:
    case ReduceOp::sum: return combine(Whole<Unsigned>(), r, Sum(), Plain());
    case ReduceOp::max: return combine(Whole<T>(), r, Extreme<T>{is_unsigned ? highest : T{0}}, Plain());
    case ReduceOp::min:
      return combine(Whole<T>(), r, Extreme<T>{static_cast<T>(is_unsigned ? ~highest : ~T{0})}, Plain());
    case ReduceOp::prod: return combine(Whole<Unsigned>(), r, Prod(), Plain());
    case ReduceOp::logical_and: return combine(Truth<Unsigned>(), r, Logic<Unsigned>{1, 0}, Plain());
    case ReduceOp::logical_or: return combine(Truth<Unsigned>(), r, Logic<Unsigned>{1, 1}, Plain());
    case ReduceOp::logical_xor: return combine(Truth<Unsigned>(), r, Logic<Unsigned>{0, 1}, Plain());
    default: return;
  }
}

/// Divides `count` integers of 8 or 16 bits in place, toward zero, by way of floats: quotients of so few bits
/// are never rounded up to a whole number, whatever the divisor.
template <class T>
HWY_INLINE void divide_small(std::byte* data, std::size_t count, std::size_t by) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> whole;
  const hn::Rebind<T, decltype(d)> stored;
  T* const values = reinterpret_cast<T*>(data);
  const auto divisor = hn::Set(d, static_cast<float>(by));
  std::size_t i = 0;
  for (; count - i >= hn::Lanes(d); i += hn::Lanes(d)) {
    const auto value = hn::ConvertTo(d, hn::PromoteTo(whole, hn::LoadU(stored, values + i)));
    hn::StoreU(hn::DemoteTo(stored, hn::ConvertTo(whole, hn::Div(value, divisor))), stored, values + i);
  }
  for (; i < count; ++i) values[i] = static_cast<T>(values[i] / static_cast<std::int64_t>(by));
}

}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles
