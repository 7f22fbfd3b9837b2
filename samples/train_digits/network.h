// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/samples/train_digits/dataset.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort::samples {

/// A step of gradient descent with momentum: velocity = momentum * velocity + gradient; parameters -=
/// learning_rate * velocity.
struct Step {
  float learning_rate = 0.05f;
  float momentum = 0.9f;
};

/// A multi-layer perceptron in float32: fully connected layers with ReLU between them, softmax cross entropy
/// after the last.
///
/// Data parallel training, one Network per rank, made with the same widths and seed and so with the same
/// parameters:
///
///     network.forward(batch);                              // this rank's shard of the global batch
///     for (layer = last; layer >= 0; --layer)
///       network.backward_layer(layer);                     // then start the sum of gradient(layer)
///     network.apply(layer, step);                          // for each layer, when its sum has arrived
///
/// Losses and gradients are divided by the size of the *global* batch. So their *sum* over the ranks is the
/// mean over the batch, also when shards differ in size or are empty.
///
/// Threads: one call at a time, except that while backward_layer(l) runs, gradient(m) and apply(m) of the
/// layers m > l belong to others. The layers' buffers are separate and never move. Cost: 2 floating point
/// operations per weight and image forwards, 4 backwards (2 in layer 0).
class Network {
 public:
  /// widths: values per image in, then out of each layer; the first is kImagePixels, the last kDigitClasses.
  /// Throws std::invalid_argument for other ends or a width of 0.
  Network(std::span<const std::size_t> widths, uint64_t seed);

  [[nodiscard]] std::size_t layers() const noexcept { return layers_.size(); }

  /// Weights (in x out, row-major), then biases (out), of a layer.
  [[nodiscard]] std::span<const float> parameters(std::size_t layer) const {
    return layers_.at(layer).parameters;
  }

  /// Laid out as parameters(layer): what backward_layer(layer) computed, and what apply(layer) uses.
  [[nodiscard]] std::span<float> gradient(std::size_t layer) { return layers_.at(layer).gradient; }

  /// Returns this shard's part of the loss: summed over all ranks it is the mean over the global batch.
  float forward(const Batch& batch);
  float forward(Batch&& batch) = delete;  // backward_layer() still needs it

  /// Overwrites gradient(layer). After forward(), from the last layer to the first; throws std::logic_error
  /// out of turn. `batch` of that forward() must still be there unchanged.
  void backward_layer(std::size_t layer);

  void apply(std::size_t layer, Step step);

  /// How many images the network names rightly. Uses the buffers of forward(): not between it and the last
  /// backward_layer().
  [[nodiscard]] std::size_t count_correct(const Dataset& data);

  /// count_correct / size; 0 for no data.
  [[nodiscard]] double accuracy(const Dataset& data);

  /// FNV-1a, 64 bits, over the bytes of all parameters in order: equal on all ranks exactly if (but for a
  /// collision) their parameters are bit-identical.
  [[nodiscard]] uint64_t parameters_hash() const noexcept;

 private:
  struct Layer {
    std::size_t in;
    std::size_t out;
    std::vector<float> parameters;
    std::vector<float> gradient;
    std::vector<float> velocity;
    std::vector<float> output;  // images x out, after the ReLU; of the last layer the logits
    std::vector<float> delta;   // d loss / d (output before the ReLU), images x out
  };

  void compute_outputs(const Dataset& images);
  [[nodiscard]] const float* input_of(std::size_t layer, const Dataset& images) const;
  void propagate_delta(std::size_t layer);

  std::vector<Layer> layers_;
  const Batch* batch_ = nullptr;        // of the last forward()
  std::size_t backward_remaining_ = 0;  // layers whose turn is still to come
};

}  // namespace cohort::samples
