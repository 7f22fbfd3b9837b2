// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/tensor.h>
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/collectives/schedules/reduce_op.h>
#include <cohort/engine/error.h>
#include <cohort/net/rank.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What tensors are as a whole: type and shape, as ranks tell each other, and how rows are shared out.
namespace cohort::python {

/// Travels between ranks, as it lies in memory.
struct TensorLayout {
  static constexpr std::size_t kMostDimensions = 16;

  std::uint8_t type = 0;
  std::uint8_t is_truth_values = 0;
  std::uint8_t is_torch = 0;
  std::uint8_t dimensions = 0;
  std::uint32_t unit = 1;
  std::array<std::int64_t, kMostDimensions> shape{};

  /// What other ranks say is theirs: at most what memory has.
  [[nodiscard]] std::size_t rows() const noexcept;
  [[nodiscard]] std::string describe() const;
};

/// Throws ValueError for more dimensions than can be told.
[[nodiscard]] TensorLayout layout_of(const Tensor& tensor);
/// Throws Mismatch unless all have one type and one shape but for their rows; the same on all ranks.
void check_rows_fit(std::string_view call, const std::string& name, std::span<const TensorLayout> all);
/// A new array or tensor of that type and shape, with so many rows. Throws ProtocolError for what is none.
[[nodiscard]] py::object make_by_layout(const TensorLayout& layout, std::size_t rows);

/// The result of an operator on one of several tensors. Throws InvalidArgument for rows that do not divide.
[[nodiscard]] py::object make_result_of(Operator op, const Tensor& in, Rank ranks);
/// Rows shared out as evenly as they can be, the first ranks having one more.
[[nodiscard]] std::vector<std::size_t> split_rows(std::size_t rows, Rank ranks);
[[nodiscard]] std::vector<std::size_t> in_elements(std::vector<std::size_t> rows, std::size_t row_elements);
/// Rows that cannot be shared out evenly, with what to do.
[[nodiscard]] Error uneven_rows(std::string_view call, const Tensor& tensor, Rank ranks);
[[nodiscard]] Error uneven_rows(std::string_view call, const TensorLayout& layout, Rank ranks);

/// A reduction by its name, or cohort.scaled_sum(factor). Throws ValueError for another name, TypeError for
/// one that does not combine such elements.
[[nodiscard]] Combination combination_of(const py::object& reduction, const Tensor& tensor,
                                         std::string_view call);
/// "float32, float64, ..."
[[nodiscard]] std::string known_types();

}  // namespace cohort::python
