// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace cohort::samples {

inline constexpr std::size_t kImagePixels = 64;  // 8 x 8, row by row
inline constexpr std::size_t kDigitClasses = 10;
inline constexpr std::size_t kDigitsRows = 1797;  // in samples/data/digits.csv

/// Labelled images, one after the other: image i is pixels[i * kImagePixels ...], each pixel from 0 (paper)
/// to 1 (ink).
struct Dataset {
  std::vector<float> pixels;
  std::vector<uint8_t> labels;  // 0 to 9

  [[nodiscard]] std::size_t size() const noexcept { return labels.size(); }
  [[nodiscard]] std::span<const float> image(std::size_t index) const;
  void append(std::span<const float> image, uint8_t label);
};

/// The first of these files that exists. Throws std::runtime_error naming all of them where none does.
[[nodiscard]] std::filesystem::path find_digits(const std::vector<std::filesystem::path>& places);

/// Reads `samples/data/digits.csv`: kDigitsRows lines of 64 pixels (0 to 16) and a label (0 to 9).
/// Throws std::runtime_error for anything else; the text says file, line, field, what is there and what
/// should be.
[[nodiscard]] Dataset load_digits(const std::filesystem::path& file);

struct Split {
  Dataset train;
  Dataset held_out;
};

/// Holds out every `one_in`th image of each digit (5: 360 of the 1797), drawn with `seed`. Every rank gets
/// the same split.
[[nodiscard]] Split split_dataset(const Dataset& data, std::size_t one_in, uint64_t seed);

/// The part of one global batch that one rank computes on. May have no images, when the batch is smaller than
/// the job.
struct Batch {
  Dataset shard;
  std::size_t global_size = 0;  // images of all ranks together
};

/// Which images a rank trains on, batch by batch.
///
/// Each epoch is a new order drawn from seed and epoch, cut into global batches (the last may be shorter).
/// Rank r of p takes images r, r + p, r + 2p, ... of each. So a global batch holds the same images whatever p
/// is, and ranks agree on it without talking.
///
/// Lifetime: `data` outlives the schedule. Threads: one at a time.
class BatchSchedule {
 public:
  struct Options {
    std::size_t batch_size = 64;  // images of all ranks together
    uint64_t seed = 1;            // the same on every rank
    int rank = 0;
    int ranks = 1;
  };

  /// Throws std::invalid_argument for an empty batch or a rank that is not one of `ranks`.
  BatchSchedule(const Dataset& data, Options options);

  [[nodiscard]] std::size_t batches_per_epoch() const noexcept;

  /// This rank's shard of a batch. The reference is good until the next call. Allocates only for the first
  /// few batches.
  [[nodiscard]] const Batch& batch(std::size_t epoch, std::size_t index);

 private:
  void start_epoch(std::size_t epoch);

  const Dataset& data_;
  const Options options_;
  std::vector<uint32_t> order_;  // of the current epoch
  std::size_t epoch_ = 0;
  Batch batch_;
};

}  // namespace cohort::samples
