// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <cohort/bench/peers/measure.h>

namespace cohort::peers {

/// A way to run an all_reduce beside computing: begin it, let it progress between two pieces of computing,
/// end it.
struct Form {
  const char* name;
  std::function<void()> start;
  std::function<void()> poll;
  std::function<void()> wait;
};

/// Arithmetic on memory that stays in the first cache, in pieces of some microseconds; or a device's, which
/// the rank only waits for.
class Computation {
 public:
  explicit Computation(bool is_on_device) : is_on_device_(is_on_device) {}

  /// So long that it takes `target_us`, if `trial_us` is what run() takes now.
  void scale(double target_us, double trial_us) {
    pieces_ = std::max(1L, std::lround(static_cast<double>(pieces_) * target_us / trial_us));
    device_ns_ = static_cast<std::int64_t>(target_us * 1e3);
  }

  void run() {
    if (is_on_device_) return sleep();
    for (long piece = 0; piece < pieces_; ++piece) run_piece();
  }

  /// The same, with `poll` in between.
  void run(const std::function<void()>& poll) {
    if (!poll) return run();
    const std::int64_t end = now_ns() + device_ns_;
    for (long piece = 0; is_on_device_ ? now_ns() < end : piece < pieces_; ++piece) {
      if (!is_on_device_) run_piece();
      poll();
    }
  }

 private:
  void sleep() const {
    const timespec time{.tv_sec = device_ns_ / 1'000'000'000, .tv_nsec = device_ns_ % 1'000'000'000};
    nanosleep(&time, nullptr);
  }

  void run_piece() {
    constexpr int kPasses = 16;
    for (int pass = 0; pass < kPasses; ++pass) {
      for (float& value : values_) value = std::sqrt(value * value + 1.0F);
    }
    asm volatile("" : : "r"(values_.data()) : "memory");
  }

  const bool is_on_device_;
  long pieces_ = 64;
  std::int64_t device_ns_ = 100'000;
  std::array<float, 2048> values_{};
};

/// How much of an all_reduce is hidden behind computing of the same length: each alone and both at once, in
/// turn. Prints a row for each form.
inline void measure_overlap(const Options& options, Measurement& measurement, std::size_t bytes,
                            std::span<float> in, std::span<float> out, const std::vector<Form>& forms) {
  const Peer& peer = measurement.peer();
  const bool computes = options.overlap != Computing::one || peer.rank == 0;
  const auto sum = sum_of_inputs(peer.ranks, 0);
  write_pattern(in, input_of(peer.rank, 0));
  for (const Form& form : forms) {
    alarm(options.timeout_s);
    const auto communicate = [&] {
      form.start();
      form.wait();
    };
    Computation computation(options.overlap == Computing::device);
    const auto compute = [&] {
      if (computes) computation.run();
    };
    const auto trial = measurement.medians_of({communicate, compute});
    computation.scale(trial[0], trial[1]);
    std::fill(out.begin(), out.end(), -1.0F);
    const auto both = [&] {
      form.start();
      if (computes) computation.run(form.poll);
      form.wait();
    };
    const auto us = measurement.medians_of({communicate, compute, both});
    if (!holds_pattern(out, sum)) throw std::runtime_error("wrong result beside computing");
    if (peer.rank != 0) continue;
    std::printf("overlap,%s,%s,%s,%s,%d,%zu,%.3f,%.3f,%.3f\n", peer.name, options.transport.c_str(),
                form.name, name_of(*options.overlap), peer.ranks, bytes, us[0], us[1], us[2]);
    std::fflush(stdout);
  }
}

}  // namespace cohort::peers
