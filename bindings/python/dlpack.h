// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// The structures of DLPack 0.8, as far as they are read here
/// (https://dmlc.github.io/dlpack/latest/c_api.html).
namespace cohort::python::dlpack {

inline constexpr std::int32_t kCpu = 1;

struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t dimensions;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: one behind the other
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

/// What one element is, as the buffer protocol writes it; "bfloat16", which that has no letter for.
struct Element {
  std::string_view format;
  std::size_t bytes;
};

[[nodiscard]] inline Element element_of(const Tensor& tensor) noexcept {
  const std::size_t bytes = tensor.bits / 8U;
  constexpr std::string_view kSigned = "bh?i???q";
  constexpr std::string_view kUnsigned = "BH?I???Q";
  constexpr std::string_view kFloating = "?e?f???d";
  const auto letter = [bytes](std::string_view letters) {
    const bool is_known = bytes >= 1 && bytes <= letters.size() && letters[bytes - 1] != '?';
    return Element{is_known ? letters.substr(bytes - 1, 1) : std::string_view("x"), bytes};
  };
  switch (tensor.code) {
    case 0: return letter(kSigned);
    case 1: return letter(kUnsigned);
    case 2: return letter(kFloating);
    case 4: return {bytes == 2 ? "bfloat16" : "x", bytes};
    case 5: return {bytes == 8 ? "Zf" : bytes == 16 ? "Zd" : "x", bytes};
    case 6: return {"?", bytes};
    default: return {"x", bytes};
  }
}

}  // namespace cohort::python::dlpack
