// SPDX-License-Identifier: Apache-2.0
#include <cohort/samples/train_digits/trainer.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace cohort::samples {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

/// Adds the life of this object to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum_ms) : sum_ms_(sum_ms) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ms_ += Milliseconds(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  double& sum_ms_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

BatchSchedule::Options schedule_options(const Communicator& comm, const Recipe& recipe) {
  BatchSchedule::Options options;
  options.batch_size = recipe.batch_size;
  options.seed = recipe.seed;
  options.rank = static_cast<int>(comm.rank());
  options.ranks = static_cast<int>(comm.size());
  return options;
}

}  // namespace

Trainer::Trainer(Communicator& comm, const std::filesystem::path& data, const Recipe& recipe)
    : comm_(comm),
      recipe_(recipe),
      split_(split_dataset(load_digits(data), recipe.hold_out_one_in, recipe.seed)),
      network_(recipe.widths, recipe.seed),
      schedule_(split_.train, schedule_options(comm, recipe)),
      compute_(comm.engine(), "compute"),
      communication_(comm.engine(), "communication") {
  for (std::size_t layer = 0; layer < network_.layers(); ++layer) {
    ready_.push_back(std::make_unique<Event>());
    averaged_.push_back(std::make_unique<Event>());
  }
}

Task<> Trainer::average_gradient(std::size_t layer) {
  const Stopwatch watch(communicating_in_step_ms_);
  co_await comm_.all_reduce(network_.gradient(layer), ReduceOp::sum);
}

/// The gradient of this layer on the compute stream; its sum on the communication stream as soon as it is
/// there.
void Trainer::enqueue_backward(std::size_t layer) {
  compute_.compute([this, layer] {
    const Stopwatch watch(computing_in_step_ms_);
    network_.backward_layer(layer);
  });
  compute_.record(*ready_[layer]);
  communication_.wait(*ready_[layer]);
  communication_.enqueue([this, layer] { return average_gradient(layer); });
  communication_.record(*averaged_[layer]);
  if (!recipe_.overlaps) compute_.wait(*averaged_[layer]);
}

Task<double> Trainer::train_epoch(std::size_t epoch) {
  double loss_sum = 0;
  for (std::size_t index = 0; index < schedule_.batches_per_epoch(); ++index) {
    const Batch& batch = schedule_.batch(epoch, index);
    const auto begin = std::chrono::steady_clock::now();
    communicating_in_step_ms_ = computing_in_step_ms_ = 0;
    compute_.compute([&] {
      const Stopwatch watch(computing_in_step_ms_);
      loss_ = network_.forward(batch);
    });
    for (std::size_t layer = network_.layers(); layer-- > 0;) enqueue_backward(layer);
    for (std::size_t layer = network_.layers(); layer-- > 0;) {
      compute_.wait(*averaged_[layer]);
      compute_.compute([this, layer] {
        const Stopwatch watch(computing_in_step_ms_);
        network_.apply(layer, recipe_.step);
      });
    }
    co_await compute_.synchronize();
    co_await communication_.synchronize();
    const double step_ms = Milliseconds(std::chrono::steady_clock::now() - begin).count();
    const double idle_ms = std::max(0.0, step_ms - computing_in_step_ms_);
    timing_.compute_ms += computing_in_step_ms_;
    timing_.communication_ms += communicating_in_step_ms_;
    timing_.exposed_ms += std::min(idle_ms, communicating_in_step_ms_);
    timing_.step_ms += step_ms;
    loss_sum += loss_;
  }
  std::array<double, 1> loss = {loss_sum / static_cast<double>(schedule_.batches_per_epoch())};
  co_await comm_.all_reduce(std::span<double>(loss), ReduceOp::sum);
  co_return loss[0];
}

Task<Timing> Trainer::slowest_timing() {
  std::array<double, 4> mine = {timing_.compute_ms, timing_.communication_ms, timing_.exposed_ms,
                                timing_.step_ms};
  std::vector<double> all(mine.size() * comm_.size());
  co_await comm_.all_gather(mine, all);
  Timing slowest;
  for (Rank rank = 0; rank < comm_.size(); ++rank) {
    const double* entry = &all[rank * mine.size()];
    if (rank == 0 || entry[2] > slowest.exposed_ms) slowest = {entry[0], entry[1], entry[2], entry[3]};
  }
  co_return slowest;
}

}  // namespace cohort::samples
