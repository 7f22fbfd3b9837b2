// SPDX-License-Identifier: Apache-2.0
#include <cohort/samples/train_digits/network.h>

#include <cohort/samples/train_digits/gemm.h>
#include <cohort/samples/train_digits/random.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace cohort::samples {
namespace {

/// Uniform in +-sqrt(6 / in): keeps the variance from layer to layer under ReLU. Biases stay 0.
/// Source: K. He et al., "Delving deep into rectifiers", ICCV 2015.
void initialise_weights(std::span<float> weights, std::size_t in, Random& random) {
  const float limit = std::sqrt(6.0f / static_cast<float>(in));
  for (float& weight : weights) {
    weight = random.symmetric(limit);
  }
}

/// For one image: writes d loss / d logits, with the loss scaled by `scale`, and returns the unscaled loss.
double softmax_cross_entropy(std::span<float> delta, std::span<const float> logits, uint8_t label,
                             float scale) {
  // The largest is taken off first: exp cannot overflow then, and the result is the same.
  const float largest = *std::max_element(logits.begin(), logits.end());
  float total = 0;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    delta[j] = std::exp(logits[j] - largest);
    total += delta[j];
  }
  for (float& value : delta) {
    value *= scale / total;
  }
  delta[label] -= scale;
  return std::log(total) - (logits[label] - largest);
}

}  // namespace

Network::Network(std::span<const std::size_t> widths, uint64_t seed) {
  if (widths.size() < 2 || widths.front() != kImagePixels || widths.back() != kDigitClasses) {
    throw std::invalid_argument(fmt::format(
        "Network: widths must begin with {} (pixels) and end with {} (digits), these are {} from {} to {}",
        kImagePixels, kDigitClasses, widths.size(), widths.empty() ? 0 : widths.front(),
        widths.empty() ? 0 : widths.back()));
  }
  if (std::find(widths.begin(), widths.end(), 0u) != widths.end()) {
    throw std::invalid_argument("Network: a layer of width 0");
  }
  Random random(seed);
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    Layer& layer = layers_.emplace_back();
    layer.in = widths[l];
    layer.out = widths[l + 1];
    const std::size_t weights = layer.in * layer.out;
    layer.parameters.assign(weights + layer.out, 0.0f);
    layer.gradient.assign(weights + layer.out, 0.0f);
    layer.velocity.assign(weights + layer.out, 0.0f);
    initialise_weights(std::span(layer.parameters).first(weights), layer.in, random);
  }
}

float Network::forward(const Batch& batch) {
  compute_outputs(batch.shard);
  batch_ = &batch;
  backward_remaining_ = layers();

  Layer& last = layers_.back();
  last.delta.resize(last.output.size());
  const float scale = 1.0f / static_cast<float>(std::max<std::size_t>(batch.global_size, 1));
  double loss = 0;
  for (std::size_t i = 0; i < batch.shard.size(); ++i) {
    const auto row = [&](std::vector<float>& rows) {
      return std::span(rows).subspan(i * last.out, last.out);
    };
    loss += softmax_cross_entropy(row(last.delta), row(last.output), batch.shard.labels[i], scale);
  }
  return static_cast<float>(loss * scale);
}

void Network::backward_layer(std::size_t layer) {
  if (backward_remaining_ == 0 || layer != backward_remaining_ - 1) {
    throw std::logic_error(
        fmt::format("Network: backward_layer({}) out of turn, {} of {} layers are left to do", layer,
                    backward_remaining_, layers()));
  }
  backward_remaining_ = layer;

  Layer& l = layers_[layer];
  const std::size_t images = batch_->shard.size();
  const MatrixView input = MatrixView::row_major(input_of(layer, batch_->shard), l.in);
  const MatrixView delta = MatrixView::row_major(l.delta.data(), l.out);
  std::fill(l.gradient.begin(), l.gradient.end(), 0.0f);
  multiply_add(l.gradient.data(), input.transposed(), delta, l.in, images, l.out);

  float* bias_gradient = l.gradient.data() + l.in * l.out;
  for (std::size_t i = 0; i < images; ++i) {
    for (std::size_t j = 0; j < l.out; ++j) {
      bias_gradient[j] += l.delta[i * l.out + j];
    }
  }
  if (layer > 0) {
    propagate_delta(layer);
  }
}

/// From this layer's delta to that of the layer below: through the weights, and through the ReLU only where
/// it let through.
void Network::propagate_delta(std::size_t layer) {
  const Layer& from = layers_[layer];
  Layer& to = layers_[layer - 1];
  to.delta.assign(to.output.size(), 0.0f);
  multiply_add(to.delta.data(), MatrixView::row_major(from.delta.data(), from.out),
               MatrixView::row_major(from.parameters.data(), from.out).transposed(), batch_->shard.size(),
               from.out, from.in);
  for (std::size_t i = 0; i < to.delta.size(); ++i) {
    to.delta[i] = to.output[i] > 0.0f ? to.delta[i] : 0.0f;
  }
}

void Network::apply(std::size_t layer, Step step) {
  Layer& l = layers_.at(layer);
  // Element by element in order, with no sum whose order could differ: equal gradients leave equal bits on
  // every rank.
  for (std::size_t i = 0; i < l.parameters.size(); ++i) {
    l.velocity[i] = step.momentum * l.velocity[i] + l.gradient[i];
    l.parameters[i] -= step.learning_rate * l.velocity[i];
  }
}

std::size_t Network::count_correct(const Dataset& data) {
  compute_outputs(data);
  backward_remaining_ = 0;
  const Layer& last = layers_.back();
  std::size_t correct = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::span<const float> logits = std::span(last.output).subspan(i * last.out, last.out);
    correct += std::max_element(logits.begin(), logits.end()) - logits.begin() == data.labels[i] ? 1 : 0;
  }
  return correct;
}

double Network::accuracy(const Dataset& data) {
  const std::size_t correct = count_correct(data);
  return data.size() == 0 ? 0.0 : static_cast<double>(correct) / static_cast<double>(data.size());
}

uint64_t Network::parameters_hash() const noexcept {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const Layer& layer : layers_) {
    for (const std::byte byte : std::as_bytes(std::span(layer.parameters))) {
      hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3ULL;
    }
  }
  return hash;
}

void Network::compute_outputs(const Dataset& images) {
  for (std::size_t l = 0; l < layers(); ++l) {
    Layer& layer = layers_[l];
    const float* biases = layer.parameters.data() + layer.in * layer.out;
    layer.output.resize(images.size() * layer.out);
    for (std::size_t i = 0; i < images.size(); ++i) {
      std::copy_n(biases, layer.out, layer.output.data() + i * layer.out);
    }
    multiply_add(layer.output.data(), MatrixView::row_major(input_of(l, images), layer.in),
                 MatrixView::row_major(layer.parameters.data(), layer.out), images.size(), layer.in,
                 layer.out);
    if (l + 1 < layers()) {
      for (float& value : layer.output) {
        value = std::max(value, 0.0f);
      }
    }
  }
}

const float* Network::input_of(std::size_t layer, const Dataset& images) const {
  return layer == 0 ? images.pixels.data() : layers_[layer - 1].output.data();
}

}  // namespace cohort::samples
