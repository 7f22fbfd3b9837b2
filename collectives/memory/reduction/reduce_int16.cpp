// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <cohort/collectives/memory/reduction/reduce_int16.cpp>
#include <hwy/foreach_target.h>
// Once per instruction set from here on.
#include <cohort/collectives/memory/reduction/kernels-inl.h>

HWY_BEFORE_NAMESPACE();
namespace cohort::detail::HWY_NAMESPACE {
void run_int16(const Reduction& r) { reduce_integers<std::int16_t>(r); }
void run_divide_int16(std::byte* data, std::size_t count, std::size_t by) {
  divide_small<std::int16_t>(data, count, by);
}
void run_divide_uint16(std::byte* data, std::size_t count, std::size_t by) {
  divide_small<std::uint16_t>(data, count, by);
}
}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort::detail {
HWY_EXPORT(run_int16);
void reduce_int16(const Reduction& r) noexcept { HWY_DYNAMIC_DISPATCH(run_int16)(r); }
HWY_EXPORT(run_divide_int16);
void divide_int16(std::byte* data, std::size_t count, std::size_t by) noexcept {
  HWY_DYNAMIC_DISPATCH(run_divide_int16)(data, count, by);
}
HWY_EXPORT(run_divide_uint16);
void divide_uint16(std::byte* data, std::size_t count, std::size_t by) noexcept {
  HWY_DYNAMIC_DISPATCH(run_divide_uint16)(data, count, by);
}
}  // namespace cohort::detail
#endif
