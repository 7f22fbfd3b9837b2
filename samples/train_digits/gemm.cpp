// SPDX-License-Identifier: Apache-2.0
#include <cohort/samples/train_digits/gemm.h>

#include <algorithm>
#include <cstring>

namespace cohort::samples {
namespace {

// A tile of C stays in registers while the depth goes by: 4 x 8 floats are half of the 16 vector registers of
// plain x86-64.
constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileColumns = 8;
// The columns of B under a tile are packed, this many rows at a time (8 KiB), so that they stay in the
// first-level cache: in place they would be a cache line each, at a stride that puts them all into few sets.
constexpr std::size_t kPanelDepth = 256;

/// Copies depth x width of B to a panel of kTileColumns, filled up with zeros.
void pack(float* panel, MatrixView b, std::size_t depth, std::size_t width) {
  if (width < kTileColumns) {
    std::fill(panel, panel + depth * kTileColumns, 0.0f);
  }
  if (b.column_stride == 1) {
    for (std::size_t k = 0; k < depth; ++k) {
      std::copy_n(b.data + k * b.row_stride, width, panel + k * kTileColumns);
    }
    return;
  }
  for (std::size_t j = 0; j < width; ++j) {
    for (std::size_t k = 0; k < depth; ++k) {
      panel[k * kTileColumns + j] = b.data[k * b.row_stride + j * b.column_stride];
    }
  }
}

/// Four floats in one register. The vectoriser, left alone with plain loops, makes this kernel slower at -O3
/// than at -O2.
using Lanes [[gnu::vector_size(16)]] = float;

Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

/// One row of the tile: a row of A to read, and eight sums.
struct TileRow {
  const float* a;
  Lanes low{};
  Lanes high{};

  void add_product(std::size_t offset, const Lanes& low_b, const Lanes& high_b) {
    const float factor = a[offset];
    low += factor * low_b;
    high += factor * high_b;
  }

  void add_to(float* c, std::size_t width) const {
    float sums[kTileColumns];
    std::memcpy(sums, &low, sizeof low);
    std::memcpy(sums + kTileColumns / 2, &high, sizeof high);
    for (std::size_t j = 0; j < width; ++j) {
      c[j] += sums[j];
    }
  }
};

/// C[rows x width] += A[rows x depth] * panel, for 1 to kTileRows rows.
void multiply_tile(float* c, std::size_t c_stride, MatrixView a, const float* panel, std::size_t rows,
                   std::size_t depth, std::size_t width) {
  // Rows that are not there compute the last one again, into sums that nobody stores: one kernel is enough.
  const auto row = [&](std::size_t i) { return TileRow{a.data + std::min(i, rows - 1) * a.row_stride}; };
  TileRow row0 = row(0);
  TileRow row1 = row(1);
  TileRow row2 = row(2);
  TileRow row3 = row(3);
  for (std::size_t k = 0; k < depth; ++k) {
    const Lanes low = load(panel + k * kTileColumns);
    const Lanes high = load(panel + k * kTileColumns + kTileColumns / 2);
    const std::size_t offset = k * a.column_stride;
    row0.add_product(offset, low, high);
    row1.add_product(offset, low, high);
    row2.add_product(offset, low, high);
    row3.add_product(offset, low, high);
  }
  const TileRow* const sums[kTileRows] = {&row0, &row1, &row2, &row3};
  for (std::size_t i = 0; i < rows; ++i) {
    sums[i]->add_to(c + i * c_stride, width);
  }
}

}  // namespace

void multiply_add(float* c, MatrixView a, MatrixView b, std::size_t rows, std::size_t depth,
                  std::size_t columns) {
  float panel[kPanelDepth * kTileColumns];
  for (std::size_t k = 0; k < depth; k += kPanelDepth) {
    const std::size_t panel_depth = std::min(kPanelDepth, depth - k);
    for (std::size_t j = 0; j < columns; j += kTileColumns) {
      const std::size_t width = std::min(kTileColumns, columns - j);
      pack(panel, {b.data + k * b.row_stride + j * b.column_stride, b.row_stride, b.column_stride},
           panel_depth, width);
      for (std::size_t i = 0; i < rows; i += kTileRows) {
        const MatrixView block{a.data + i * a.row_stride + k * a.column_stride, a.row_stride,
                               a.column_stride};
        multiply_tile(c + i * columns + j, columns, block, panel, std::min(kTileRows, rows - i), panel_depth,
                      width);
      }
    }
  }
}

}  // namespace cohort::samples
