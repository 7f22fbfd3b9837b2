// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <cohort/collectives/memory/reduction/reduce_bits.cpp>
#include <hwy/foreach_target.h>
// Once per instruction set from here on.
#include <cohort/collectives/memory/reduction/kernels-inl.h>

HWY_BEFORE_NAMESPACE();
namespace cohort::detail::HWY_NAMESPACE {
void run_bits(const Reduction& r) {
  using Bits = Logic<std::uint8_t>;
  const Bits op = r.op == ReduceOp::bit_and  ? Bits{0xff, 0}
                  : r.op == ReduceOp::bit_or ? Bits{0xff, 0xff}
                                             : Bits{0, 0xff};
  Reduction bytes = r;
  bytes.count *= size_bytes(r.type);
  combine(Whole<std::uint8_t>(), bytes, op, Plain());
}
}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort::detail {
HWY_EXPORT(run_bits);
void reduce_bits(const Reduction& r) noexcept { HWY_DYNAMIC_DISPATCH(run_bits)(r); }
}  // namespace cohort::detail
#endif
