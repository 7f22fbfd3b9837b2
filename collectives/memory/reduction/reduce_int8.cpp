// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <cohort/collectives/memory/reduction/reduce_int8.cpp>
#include <hwy/foreach_target.h>
// Once per instruction set from here on.
#include <cohort/collectives/memory/reduction/kernels-inl.h>

HWY_BEFORE_NAMESPACE();
namespace cohort::detail::HWY_NAMESPACE {
void run_int8(const Reduction& r) { reduce_integers<std::int8_t>(r); }
void run_divide_int8(std::byte* data, std::size_t count, std::size_t by) {
  divide_small<std::int8_t>(data, count, by);
}
void run_divide_uint8(std::byte* data, std::size_t count, std::size_t by) {
  divide_small<std::uint8_t>(data, count, by);
}
}  // namespace cohort::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort::detail {
HWY_EXPORT(run_int8);
void reduce_int8(const Reduction& r) noexcept { HWY_DYNAMIC_DISPATCH(run_int8)(r); }
HWY_EXPORT(run_divide_int8);
void divide_int8(std::byte* data, std::size_t count, std::size_t by) noexcept {
  HWY_DYNAMIC_DISPATCH(run_divide_int8)(data, count, by);
}
HWY_EXPORT(run_divide_uint8);
void divide_uint8(std::byte* data, std::size_t count, std::size_t by) noexcept {
  HWY_DYNAMIC_DISPATCH(run_divide_uint8)(data, count, by);
}
}  // namespace cohort::detail
#endif
