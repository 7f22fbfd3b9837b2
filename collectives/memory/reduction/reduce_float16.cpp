// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <cohort/collectives/memory/reduction/reduce_float16.cpp>
#include <hwy/foreach_target.h>
// Once per instruction set from here on.
#include <cohort/collectives/memory/reduction/kernels-inl.h>

HWY_BEFORE_NAMESPACE();
namespace cohort::detail::HWY_NAMESPACE {
void run_float16(const Reduction& r) { reduce_floats(Rounded<float16>(), r, Plain()); }
}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort::detail {
HWY_EXPORT(run_float16);
void reduce_float16(const Reduction& r) noexcept { HWY_DYNAMIC_DISPATCH(run_float16)(r); }
}  // namespace cohort::detail
#endif
