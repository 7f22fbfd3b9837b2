// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/samples/train_digits/network.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace cohort::samples {

/// What train_digits trains, and how. The same on every rank. Accuracy after 20 epochs over seeds 1 to 8:
/// 0.969 to 0.992, mean 0.983.
struct Recipe {
  // Gradients of 65, 257, 257, 257 and 10 KiB: while one of the large ones is on its way, as much work again
  // is left to do. One large layer alone would have little to hide behind, as only what comes after it in the
  // backward pass can hide it.
  std::array<std::size_t, 6> widths{kImagePixels, 256, 256, 256, 256, kDigitClasses};
  std::size_t batch_size = 128;  // images of all ranks together
  std::size_t epochs = 20;
  bool overlaps = true;  // else a gradient's average is awaited before the next gradient is computed
  Step step;
  std::size_t hold_out_one_in = 5;  // 360 of the 1797 images
  uint64_t seed = 1;                // of the split, the order of the images and the first weights
};

}  // namespace cohort::samples
