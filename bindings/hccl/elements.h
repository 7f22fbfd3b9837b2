// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>
#include <cohort/collectives/schedules/reduce_op.h>

#include <acl/acl_base.h>
#include <hccl/hccl_types.h>
#include <cstddef>

namespace cohort::bindings::hccl {

/// What an element of the interface is to the library: one of its own, or some bytes that are only moved.
struct ElementForm {
  DataType type = DataType::byte;
  std::size_t per_element = 1;  ///< of the library's; more than one only of bytes

  [[nodiscard]] std::size_t size_bytes() const noexcept { return per_element * cohort::size_bytes(type); }
};

// Throw CodedError for what is none.
[[nodiscard]] ElementForm element_of(const char* function, HcclDataType type);
/// The same of one that is combined.
[[nodiscard]] ElementForm combined_element_of(const char* function, HcclDataType type);
[[nodiscard]] ElementForm combined_element_of(const char* function, aclDataType type);
[[nodiscard]] ReduceOp reduce_op_of(const char* function, int op);

/// As large as no memory is where it does not fit, so that it is refused.
[[nodiscard]] std::size_t times(std::size_t count, std::size_t bytes) noexcept;

}  // namespace cohort::bindings::hccl
