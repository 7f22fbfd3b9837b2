// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/elements.h>

#include <cohort/bindings/hccl/error.h>

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>

namespace cohort::bindings::hccl {
namespace {

std::optional<ElementForm> find_element(HcclDataType type) noexcept {
  switch (type) {
    case HCCL_DATA_TYPE_INT8: return ElementForm{DataType::int8};
    case HCCL_DATA_TYPE_INT16: return ElementForm{DataType::int16};
    case HCCL_DATA_TYPE_INT32: return ElementForm{DataType::int32};
    case HCCL_DATA_TYPE_FP16: return ElementForm{DataType::float16};
    case HCCL_DATA_TYPE_FP32: return ElementForm{DataType::float32};
    case HCCL_DATA_TYPE_INT64: return ElementForm{DataType::int64};
    case HCCL_DATA_TYPE_UINT64: return ElementForm{DataType::uint64};
    case HCCL_DATA_TYPE_UINT8: return ElementForm{DataType::uint8};
    case HCCL_DATA_TYPE_UINT16: return ElementForm{DataType::uint16};
    case HCCL_DATA_TYPE_UINT32: return ElementForm{DataType::uint32};
    case HCCL_DATA_TYPE_FP64: return ElementForm{DataType::float64};
    case HCCL_DATA_TYPE_BFP16: return ElementForm{DataType::bfloat16};
    case HCCL_DATA_TYPE_FP8E4M3: return ElementForm{DataType::float8_e4m3};
    case HCCL_DATA_TYPE_FP8E5M2: return ElementForm{DataType::float8_e5m2};
    case HCCL_DATA_TYPE_INT128: return ElementForm{DataType::byte, 16};
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E8M0: return ElementForm{DataType::byte};
    case HCCL_DATA_TYPE_RESERVED: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<ElementForm> find_element(aclDataType type) noexcept {
  switch (type) {
    case ACL_FLOAT: return ElementForm{DataType::float32};
    case ACL_FLOAT16: return ElementForm{DataType::float16};
    case ACL_INT8: return ElementForm{DataType::int8};
    case ACL_INT32: return ElementForm{DataType::int32};
    case ACL_UINT8: return ElementForm{DataType::uint8};
    case ACL_INT16: return ElementForm{DataType::int16};
    case ACL_UINT16: return ElementForm{DataType::uint16};
    case ACL_UINT32: return ElementForm{DataType::uint32};
    case ACL_INT64: return ElementForm{DataType::int64};
    case ACL_UINT64: return ElementForm{DataType::uint64};
    case ACL_DOUBLE: return ElementForm{DataType::float64};
    case ACL_BF16: return ElementForm{DataType::bfloat16};
    default: return std::nullopt;
  }
}

}  // namespace

ElementForm element_of(const char* function, HcclDataType type) {
  const std::optional<ElementForm> element = find_element(type);
  if (!element)
    refuse(fmt::format("{}: {} is no type of elements; give one of HcclDataType", function,
                       static_cast<int>(type)));
  return *element;
}

ElementForm combined_element_of(const char* function, HcclDataType type) {
  const ElementForm element = element_of(function, type);
  if (element.type == DataType::byte)
    refuse_unsupported(fmt::format("{}: elements of type {} can be moved and not combined", function,
                                   static_cast<int>(type)));
  return element;
}

ElementForm combined_element_of(const char* function, aclDataType type) {
  const std::optional<ElementForm> element = find_element(type);
  if (!element)
    refuse(fmt::format("{}: elements of type {} cannot be combined; give numbers, as ACL_FLOAT", function,
                       static_cast<int>(type)));
  return *element;
}

ReduceOp reduce_op_of(const char* function, int op) {
  constexpr std::array kOps = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min};
  if (op < 0 || static_cast<std::size_t>(op) >= kOps.size())
    refuse(fmt::format("{}: {} is no reduction; give one of 0 (sum) to 3 (min)", function, op));
  return kOps[static_cast<std::size_t>(op)];
}

std::size_t times(std::size_t count, std::size_t bytes) noexcept {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  return bytes != 0 && count > kMost / bytes ? kMost : count * bytes;
}

}  // namespace cohort::bindings::hccl

size_t aclDataTypeSize(aclDataType dataType) {
  switch (dataType) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL: return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16: return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32: return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64: return 8;
    case ACL_COMPLEX128: return 16;
    default: return 0;
  }
}
