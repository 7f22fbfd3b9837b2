// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cohort::samples {

/// A matrix to read, anywhere in memory: element (i, j) is data[i * row_stride + j * column_stride].
struct MatrixView {
  const float* data;
  std::size_t row_stride;
  std::size_t column_stride;

  static MatrixView row_major(const float* data, std::size_t columns) { return {data, columns, 1}; }
  [[nodiscard]] MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

/// C += A * B: A is rows x depth, B is depth x columns, C is rows x columns, row-major and dense, and
/// overlaps neither.
///
/// An element of C is summed in an order that depends on depth alone: the same row of A gives the same bits
/// wherever it stands and however many rows are beside it. One thread; no allocation.
void multiply_add(float* c, MatrixView a, MatrixView b, std::size_t rows, std::size_t depth,
                  std::size_t columns);

}  // namespace cohort::samples
