// SPDX-License-Identifier: Apache-2.0
#include <cohort/samples/train_digits/gemm.h>

#include <cohort/samples/train_digits/random.h>
#include <gtest/gtest.h>

#include <vector>

namespace cohort::samples::train_digits_gemm_test {
namespace {

std::vector<float> random_values(std::size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = random.symmetric(1.0f);
  }
  return values;
}

/// Sizes around the tile (4 x 8) and the panel (256 deep).
struct Shape {
  std::size_t rows, depth, columns;
};
constexpr Shape kShapes[] = {{0, 5, 5}, {5, 0, 5},  {5, 5, 0},    {1, 1, 1},    {3, 7, 7},    {4, 8, 8},
                             {5, 9, 9}, {7, 3, 17}, {64, 32, 10}, {6, 255, 11}, {9, 257, 15}, {2, 600, 8}};

TEST(TrainDigitsGemm, agrees_with_the_definition_for_every_orientation_and_odd_size) {
  for (const Shape& shape : kShapes) {
    const auto [rows, depth, columns] = shape;
    const std::vector<float> a = random_values(rows * depth, 1);
    const std::vector<float> b = random_values(depth * columns, 2);
    for (int orientation = 0; orientation < 4; ++orientation) {
      const MatrixView a_view = (orientation & 1) == 0 ? MatrixView::row_major(a.data(), depth)
                                                       : MatrixView::row_major(a.data(), rows).transposed();
      const MatrixView b_view = (orientation & 2) == 0 ? MatrixView::row_major(b.data(), columns)
                                                       : MatrixView::row_major(b.data(), depth).transposed();
      std::vector<float> c(rows * columns, 0.5f);
      multiply_add(c.data(), a_view, b_view, rows, depth, columns);
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          double expected = 0.5;
          for (std::size_t k = 0; k < depth; ++k) {
            expected += static_cast<double>(a_view.data[i * a_view.row_stride + k * a_view.column_stride]) *
                        static_cast<double>(b_view.data[k * b_view.row_stride + j * b_view.column_stride]);
          }
          ASSERT_NEAR(c[i * columns + j], expected, 1e-5 * (1.0 + static_cast<double>(depth) / 16))
              << rows << " x " << depth << " x " << columns << ", orientation " << orientation << ", at " << i
              << ", " << j;
        }
      }
    }
  }
}

TEST(TrainDigitsGemm, a_row_has_the_same_bits_wherever_it_stands) {
  constexpr std::size_t kRows = 11;
  constexpr std::size_t kDepth = 300;
  constexpr std::size_t kColumns = 21;
  const std::vector<float> a = random_values(kRows * kDepth, 3);
  const std::vector<float> b = random_values(kDepth * kColumns, 4);
  const MatrixView b_view = MatrixView::row_major(b.data(), kColumns);
  std::vector<float> together(kRows * kColumns);
  multiply_add(together.data(), MatrixView::row_major(a.data(), kDepth), b_view, kRows, kDepth, kColumns);
  for (std::size_t i = 0; i < kRows; ++i) {
    std::vector<float> alone(kColumns);
    multiply_add(alone.data(), MatrixView::row_major(a.data() + i * kDepth, kDepth), b_view, 1, kDepth,
                 kColumns);
    for (std::size_t j = 0; j < kColumns; ++j) {
      EXPECT_EQ(alone[j], together[i * kColumns + j]) << "row " << i << ", column " << j;
    }
  }
}

}  // namespace
}  // namespace cohort::samples::train_digits_gemm_test
