// SPDX-License-Identifier: Apache-2.0
#include <cohort/samples/train_digits/network.h>

#include <cohort/samples/train_digits/random.h>
#include <cohort/samples/train_digits/recipe.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace cohort::samples::train_digits_network_test {
namespace {

const Split& digits() {
  static const Split split = [] {
    return split_dataset(load_digits(COHORT_TEST_SOURCE_DIR "/samples/data/digits.csv"),
                         Recipe{}.hold_out_one_in, Recipe{}.seed);
  }();
  return split;
}

// Odd widths: every tile of the matrix products has a rest.
constexpr std::array<std::size_t, 4> kOddWidths{kImagePixels, 9, 7, kDigitClasses};

Batch first_batch(std::size_t batch_size, int rank = 0, int ranks = 1) {
  BatchSchedule schedule(digits().train, {.batch_size = batch_size, .seed = 1, .rank = rank, .ranks = ranks});
  return schedule.batch(0, 0);
}

float forward_and_backward(Network& network, const Batch& batch) {
  const float loss = network.forward(batch);
  for (std::size_t layer = network.layers(); layer-- > 0;) {
    network.backward_layer(layer);
  }
  return loss;
}

/// The same network once more, from the textbook and in float64: what the derivatives are measured on.
double reference_loss(std::span<const std::size_t> widths, const std::vector<std::vector<double>>& parameters,
                      const Batch& batch) {
  double loss = 0;
  for (std::size_t image = 0; image < batch.shard.size(); ++image) {
    const std::span<const float> pixels = batch.shard.image(image);
    std::vector<double> values(pixels.begin(), pixels.end());
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
      const std::size_t in = widths[layer];
      const std::size_t out = widths[layer + 1];
      std::vector<double> next(out);
      for (std::size_t j = 0; j < out; ++j) {
        next[j] = parameters[layer][in * out + j];
        for (std::size_t i = 0; i < in; ++i) {
          next[j] += values[i] * parameters[layer][i * out + j];
        }
        next[j] = layer + 2 < widths.size() ? std::max(next[j], 0.0) : next[j];
      }
      values = next;
    }
    double total = 0;
    for (const double logit : values) {
      total += std::exp(logit);
    }
    loss += std::log(total) - values[batch.shard.labels[image]];
  }
  return loss / static_cast<double>(batch.global_size);
}

TEST(TrainDigitsNetwork, gradient_of_every_parameter_is_the_slope_of_the_loss) {
  Network network(kOddWidths, 5);
  const Batch batch = first_batch(6);
  // Two steps first: biases and ReLUs are then no longer all in their first state.
  for (int step = 0; step < 2; ++step) {
    forward_and_backward(network, batch);
    for (std::size_t layer = 0; layer < network.layers(); ++layer) {
      network.apply(layer, {.learning_rate = 0.1f, .momentum = 0.9f});
    }
  }
  const float loss = forward_and_backward(network, batch);

  std::vector<std::vector<double>> parameters;
  for (std::size_t layer = 0; layer < network.layers(); ++layer) {
    parameters.emplace_back(network.parameters(layer).begin(), network.parameters(layer).end());
  }
  EXPECT_NEAR(loss, reference_loss(kOddWidths, parameters, batch), 1e-5);
  constexpr double kShift = 1e-6;
  for (std::size_t layer = 0; layer < network.layers(); ++layer) {
    ASSERT_EQ(parameters[layer].size(), (kOddWidths[layer] + 1) * kOddWidths[layer + 1]);
    double largest = 0;
    for (std::size_t i = 0; i < parameters[layer].size(); ++i) {
      const double before = parameters[layer][i];
      parameters[layer][i] = before + kShift;
      const double above = reference_loss(kOddWidths, parameters, batch);
      parameters[layer][i] = before - kShift;
      const double below = reference_loss(kOddWidths, parameters, batch);
      parameters[layer][i] = before;
      const double slope = (above - below) / (2 * kShift);
      EXPECT_NEAR(network.gradient(layer)[i], slope, 1e-5) << "layer " << layer << ", parameter " << i;
      largest = std::max(largest, std::abs(slope));
    }
    EXPECT_GT(largest, 0.01) << "layer " << layer << " must have slopes to compare";
  }
}

TEST(TrainDigitsNetwork, gradients_of_the_shards_sum_to_that_of_the_whole_batch) {
  constexpr std::size_t kBatchSize = 30;
  Network network(kOddWidths, 5);
  const Batch whole = first_batch(kBatchSize);
  const float whole_loss = forward_and_backward(network, whole);
  std::vector<std::vector<float>> expected;
  for (std::size_t layer = 0; layer < network.layers(); ++layer) {
    expected.emplace_back(network.gradient(layer).begin(), network.gradient(layer).end());
  }
  for (const int ranks : {1, 2, 3, 4, 7, 8, 33}) {  // 7 and 8: uneven shards; 33: empty ones
    float loss = 0;
    std::vector<std::vector<float>> sum(network.layers());
    for (int rank = 0; rank < ranks; ++rank) {
      const Batch shard = first_batch(kBatchSize, rank, ranks);
      loss += forward_and_backward(network, shard);
      for (std::size_t layer = 0; layer < network.layers(); ++layer) {
        sum[layer].resize(expected[layer].size());
        std::transform(sum[layer].begin(), sum[layer].end(), network.gradient(layer).begin(),
                       sum[layer].begin(), std::plus<>());
      }
    }
    EXPECT_NEAR(loss, whole_loss, 1e-5) << ranks << " ranks";
    for (std::size_t layer = 0; layer < network.layers(); ++layer) {
      for (std::size_t i = 0; i < sum[layer].size(); ++i) {
        ASSERT_NEAR(sum[layer][i], expected[layer][i], 2e-6)
            << ranks << " ranks, layer " << layer << ", " << i;
      }
    }
  }
}

TEST(TrainDigitsNetwork, apply_follows_gradient_and_momentum) {
  Network network(kOddWidths, 5);
  const float before = network.parameters(1)[3];
  const std::vector<float> others(network.parameters(0).begin(), network.parameters(0).end());
  network.gradient(1)[3] = 2.0f;
  network.apply(1, {.learning_rate = 0.5f, .momentum = 0.25f});
  EXPECT_FLOAT_EQ(network.parameters(1)[3], before - 0.5f * 2.0f);
  network.gradient(1)[3] = 4.0f;
  network.apply(1, {.learning_rate = 0.5f, .momentum = 0.25f});
  EXPECT_FLOAT_EQ(network.parameters(1)[3], before - 0.5f * 2.0f - 0.5f * (0.25f * 2.0f + 4.0f));
  EXPECT_TRUE(std::equal(others.begin(), others.end(), network.parameters(0).begin()));
}

TEST(TrainDigitsNetwork, upper_layers_may_be_applied_while_lower_ones_are_still_computed) {
  Network one_by_one(kOddWidths, 5);
  Network overlapped(kOddWidths, 5);
  const Step step;
  for (int round = 0; round < 20; ++round) {
    const Batch batch = first_batch(32);
    forward_and_backward(one_by_one, batch);
    overlapped.forward(batch);
    std::vector<std::jthread> appliers;
    for (std::size_t layer = one_by_one.layers(); layer-- > 0;) {
      one_by_one.apply(layer, step);
      overlapped.backward_layer(layer);
      appliers.emplace_back([&overlapped, layer, step] { overlapped.apply(layer, step); });
    }
    appliers.clear();
    ASSERT_EQ(one_by_one.parameters_hash(), overlapped.parameters_hash()) << "round " << round;
  }
}

TEST(TrainDigitsNetwork, backward_out_of_turn_is_refused) {
  Network network(kOddWidths, 5);
  EXPECT_THROW(network.backward_layer(2), std::logic_error) << "before forward";
  const Batch batch = first_batch(4);
  network.forward(batch);
  EXPECT_THROW(network.backward_layer(1), std::logic_error) << "not the last layer";
  network.backward_layer(2);
  EXPECT_THROW(network.backward_layer(2), std::logic_error) << "twice";
  network.backward_layer(1);
  network.backward_layer(0);
  EXPECT_THROW(network.backward_layer(std::size_t{0} - 1), std::logic_error) << "below the first layer";
  network.forward(batch);
  static_cast<void>(network.count_correct(digits().held_out));
  EXPECT_THROW(network.backward_layer(2), std::logic_error) << "its activations are overwritten";
}

TEST(TrainDigitsNetwork, widths_that_do_not_fit_the_digits_are_refused) {
  using Widths = std::vector<std::size_t>;
  for (const Widths& widths : {Widths{}, Widths{64}, Widths{63, 10}, Widths{64, 32, 9}, Widths{64, 0, 10}}) {
    EXPECT_THROW(Network(widths, 1), std::invalid_argument) << widths.size() << " widths";
  }
}

TEST(TrainDigitsNetwork, hash_tells_seeds_and_the_last_bit_of_one_parameter_apart) {
  EXPECT_EQ(Network(kOddWidths, 5).parameters_hash(), Network(kOddWidths, 5).parameters_hash());
  EXPECT_NE(Network(kOddWidths, 5).parameters_hash(), Network(kOddWidths, 6).parameters_hash());
  for (std::size_t layer = 0; layer + 1 < kOddWidths.size(); ++layer) {
    Network network(kOddWidths, 5);
    const uint64_t before = network.parameters_hash();
    network.apply(layer, {});
    EXPECT_EQ(network.parameters_hash(), before) << "a zero gradient changes nothing";
    const float last = network.parameters(layer).back();
    network.gradient(layer).back() = last - std::nextafter(last, 1.0f);
    network.apply(layer, {.learning_rate = 1.0f, .momentum = 0.0f});
    EXPECT_NE(network.parameters_hash(), before) << "layer " << layer;
  }
}

struct Trained {
  std::vector<double> losses;  // mean of each epoch
  std::vector<uint64_t> hashes;
  double accuracy = 0;
};

/// The recipe of the sample, with all ranks in this thread and the plainest all-reduce.
Trained train(int ranks, std::size_t epochs) {
  const Recipe recipe;
  std::vector<Network> networks;
  std::vector<BatchSchedule> schedules;
  for (int rank = 0; rank < ranks; ++rank) {
    networks.emplace_back(recipe.widths, recipe.seed);
    schedules.push_back(BatchSchedule(digits().train, {recipe.batch_size, recipe.seed, rank, ranks}));
  }
  const auto all_reduce = [&](std::size_t layer) {
    const std::span<float> sum = networks[0].gradient(layer);
    for (std::size_t rank = 1; rank < networks.size(); ++rank) {
      std::transform(sum.begin(), sum.end(), networks[rank].gradient(layer).begin(), sum.begin(),
                     std::plus<>());
    }
    for (Network& network : networks) {
      std::copy(sum.begin(), sum.end(), network.gradient(layer).begin());
      network.apply(layer, recipe.step);
    }
  };
  Trained result;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    double loss = 0;
    for (std::size_t index = 0; index < schedules[0].batches_per_epoch(); ++index) {
      for (std::size_t rank = 0; rank < networks.size(); ++rank) {
        loss += forward_and_backward(networks[rank], schedules[rank].batch(epoch, index));
      }
      for (std::size_t layer = 0; layer < networks[0].layers(); ++layer) {
        all_reduce(layer);
      }
    }
    result.losses.push_back(loss / static_cast<double>(schedules[0].batches_per_epoch()));
  }
  for (Network& network : networks) {
    result.hashes.push_back(network.parameters_hash());
  }
  result.accuracy = networks[0].accuracy(digits().held_out);
  return result;
}

TEST(TrainDigitsNetwork, recipe_learns_the_digits_with_any_number_of_ranks_and_leaves_the_same_bits_on_all) {
  for (const int ranks : {1, 4}) {
    const Trained trained = train(ranks, Recipe{}.epochs);
    EXPECT_GE(trained.accuracy, 0.95) << ranks << " ranks";
    RecordProperty("accuracy_" + std::to_string(ranks), std::to_string(trained.accuracy));
    for (std::size_t epoch = 1; epoch < 4; ++epoch) {
      EXPECT_LT(trained.losses[epoch], trained.losses[epoch - 1]) << ranks << " ranks, epoch " << epoch;
    }
    EXPECT_LT(trained.losses.back(), 0.02 * trained.losses.front()) << ranks << " ranks";
    EXPECT_EQ(trained.hashes, std::vector<uint64_t>(trained.hashes.size(), trained.hashes[0]))
        << ranks << " ranks";
  }
}

TEST(TrainDigitsNetwork, training_twice_leaves_the_same_bits) {
  EXPECT_EQ(train(3, 1).hashes, train(3, 1).hashes);
}

TEST(TrainDigitsNetwork, accuracy_counts_the_rightly_named_images) {
  Network network(kOddWidths, 5);
  EXPECT_EQ(network.accuracy(Dataset{}), 0.0);
  Dataset data;
  const Dataset& source = digits().held_out;
  for (std::size_t i = 0; i < 20; ++i) {
    // The label that an untrained network happens to give: the one that counts as correct.
    for (uint8_t label = 0; label < kDigitClasses; ++label) {
      Dataset one;
      one.append(source.image(i), label);
      if (network.count_correct(one) == 1) {
        data.append(source.image(i), i < 15 ? label : static_cast<uint8_t>((label + 1) % kDigitClasses));
      }
    }
  }
  ASSERT_EQ(data.size(), 20u) << "exactly one label is right";
  EXPECT_EQ(network.count_correct(data), 15u);
  EXPECT_EQ(network.accuracy(data), 0.75);
}

}  // namespace
}  // namespace cohort::samples::train_digits_network_test
