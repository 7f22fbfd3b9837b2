// SPDX-License-Identifier: Apache-2.0
//
// Reduction and copy kernels on one thread. bytes_per_second counts the payload: a copy or a reduction of n
// bytes is n, whatever the number of inputs. Pages are touched before the clock starts.
#include <benchmark/benchmark.h>
#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/collectives/memory/reduction/reduce.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

using cohort::DataType;
using cohort::ReduceOp;
using cohort::Stores;

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
const std::vector<std::int64_t> kSizes{4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB};

/// Page-aligned elements of value 1: neither the sum nor the product of them leaves the normal range in a
/// step.
class Buffer {
 public:
  explicit Buffer(std::size_t size_bytes)
      : data_(static_cast<std::byte*>(::operator new(size_bytes, kPage))) {
    std::fill_n(reinterpret_cast<float*>(data_.get()), size_bytes / sizeof(float), 1.0F);
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kPage); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

void report(benchmark::State& state, std::size_t size_bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(size_bytes));
}

/// Arguments: inputs, bytes, outputs that are no input; none means in place.
void reduce(benchmark::State& state, DataType type, ReduceOp op, Stores stores) {
  const auto fan_in = static_cast<std::size_t>(state.range(0));
  const auto size_bytes = static_cast<std::size_t>(state.range(1));
  const auto new_outputs = static_cast<std::size_t>(state.range(2));
  std::vector<Buffer> buffers;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (std::size_t j = 0; j < fan_in + new_outputs; ++j) {
    const std::byte* const data = buffers.emplace_back(size_bytes).data();
    if (j < fan_in) inputs.push_back(data);
    if (j >= fan_in || (j == 0 && new_outputs == 0)) outputs.push_back(buffers.back().data());
  }
  const std::size_t ranks = op == ReduceOp::avg ? fan_in : 0;
  for (auto _ : state) {
    cohort::reduce({type, op, size_bytes / cohort::size_bytes(type), inputs, outputs, ranks, stores});
  }
  report(state, size_bytes);
  state.SetLabel(cohort::reduction_target());
}

const std::vector<std::string> kReduceArguments{"inputs", "bytes", "outputs"};

void sum_in_place(benchmark::State& state) {
  reduce(state, DataType::float32, ReduceOp::sum, Stores::cached);
}
BENCHMARK(sum_in_place)->ArgsProduct({{2, 4, 8}, kSizes, {0}})->ArgNames(kReduceArguments);

void sum_in_place_streaming(benchmark::State& state) {
  reduce(state, DataType::float32, ReduceOp::sum, Stores::streaming);
}
BENCHMARK(sum_in_place_streaming)->ArgsProduct({{2, 4, 8}, kSizes, {0}})->ArgNames(kReduceArguments);

void sum_to_new(benchmark::State& state) { reduce(state, DataType::float32, ReduceOp::sum, Stores::cached); }
BENCHMARK(sum_to_new)->ArgsProduct({{2, 17}, kSizes, {1, 2, 4}})->ArgNames(kReduceArguments);

/// What each rank does of a direct all_reduce: as many outputs as inputs.
void sum_everywhere(benchmark::State& state) {
  reduce(state, DataType::float32, ReduceOp::sum, Stores::cached);
}
BENCHMARK(sum_everywhere)
    ->ArgsProduct({{4}, {16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB}, {4}})
    ->ArgsProduct({{8}, {16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB}, {8}})
    ->ArgNames(kReduceArguments);

void sum_to_new_streaming(benchmark::State& state) {
  reduce(state, DataType::float32, ReduceOp::sum, Stores::streaming);
}
BENCHMARK(sum_to_new_streaming)->ArgsProduct({{2}, kSizes, {1, 2, 4}})->ArgNames(kReduceArguments);

/// Two inputs in place, in the second-level cache and in memory; memcpy/BYTES is the copy to compare with.
[[maybe_unused]] const bool kHasEveryTypeAndOp = [] {
  for (const DataType type : cohort::kDataTypes) {
    for (const ReduceOp op : cohort::kReduceOps) {
      if (!cohort::applies(op, type)) continue;
      const auto run = [=](benchmark::State& state) {
        reduce(state, type, op, Stores::cached);
        state.SetLabel(std::string(to_string(type)) + " " + std::string(to_string(op)));
      };
      const std::string name =
          "every_type_and_op/" + std::string(to_string(type)) + "/" + std::string(to_string(op));
      benchmark::RegisterBenchmark(name.c_str(), run)
          ->ArgsProduct({{2}, {256 * kKiB, 64 * kMiB}, {0}})
          ->ArgNames(kReduceArguments);
    }
  }
  return true;
}();

/// What a call costs before it does anything: two inputs in place.
void sum_of_few_elements(benchmark::State& state) {
  reduce(state, DataType::float32, ReduceOp::sum, Stores::cached);
}
BENCHMARK(sum_of_few_elements)
    ->ArgsProduct({{2}, {4, 8, 60, 64, 252, 1024}, {0}})
    ->ArgNames(kReduceArguments);

/// The yardstick: the plain loop, as the compiler makes it of -O2.
void scalar_sum_in_place(benchmark::State& state) {
  const auto size_bytes = static_cast<std::size_t>(state.range(0));
  const Buffer inout(size_bytes);
  const Buffer in(size_bytes);
  float* const to = reinterpret_cast<float*>(inout.data());
  const float* const from = reinterpret_cast<const float*>(in.data());
  for (auto _ : state) {
    for (std::size_t i = 0; i < size_bytes / sizeof(float); ++i) to[i] += from[i];
    benchmark::ClobberMemory();
  }
  report(state, size_bytes);
}
BENCHMARK(scalar_sum_in_place)->ArgsProduct({kSizes})->ArgName("bytes");

template <class Copy>
void copy(benchmark::State& state, Copy copy_bytes) {
  const auto size_bytes = static_cast<std::size_t>(state.range(0));
  const Buffer to(size_bytes);
  const Buffer from(size_bytes);
  for (auto _ : state) {
    copy_bytes(to.data(), from.data(), size_bytes);
    benchmark::ClobberMemory();
  }
  report(state, size_bytes);
}

void memcpy(benchmark::State& state) {
  copy(state, [](std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}
BENCHMARK(memcpy)->ArgsProduct({kSizes})->ArgName("bytes");

void copy_streaming(benchmark::State& state) {
  copy(state, [](std::byte* to, const std::byte* from, std::size_t bytes) {
    cohort::copy(to, from, bytes, Stores::streaming);
  });
}
BENCHMARK(copy_streaming)->ArgsProduct({kSizes})->ArgName("bytes");

}  // namespace
