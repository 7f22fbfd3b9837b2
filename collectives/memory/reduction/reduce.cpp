// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/reduction/reduce.h>

#include <cohort/collectives/memory/reduction/divide.h>
#include <cohort/collectives/memory/reduction/kernels.h>
#include <cohort/engine/assert.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace cohort {

namespace {

using detail::kMaxFanIn;

/// Small enough to stay in the first-level cache beside the inputs that pass through it.
constexpr std::size_t kTileBytes = 4096;

struct Implementation {
  DataType type;
  detail::Kernel* kernel;
  /// Divides in place; null where the kernel divides by itself.
  detail::Divide* divide = nullptr;
  /// Rounds what it stores, and so takes all inputs at once, however many.
  bool rounds = false;
};

/// In the order of the data types.
constexpr std::array<Implementation, kDataTypes.size()> kImplementations{{
    {DataType::float32, detail::reduce_float32},
    {DataType::float64, detail::reduce_float64},
    {DataType::float16, detail::reduce_float16, nullptr, true},
    {DataType::bfloat16, detail::reduce_bfloat16, nullptr, true},
    {DataType::float8_e4m3, detail::reduce_float8_e4m3, nullptr, true},
    {DataType::float8_e5m2, detail::reduce_float8_e5m2, nullptr, true},
    {DataType::int8, detail::reduce_int8, detail::divide_int8},
    {DataType::int16, detail::reduce_int16, detail::divide_int16},
    {DataType::int32, detail::reduce_int32, detail::divide_integers<std::int32_t>},
    {DataType::int64, detail::reduce_int64, detail::divide_integers<std::int64_t>},
    {DataType::uint8, detail::reduce_int8, detail::divide_uint8},
    {DataType::uint16, detail::reduce_int16, detail::divide_uint16},
    {DataType::uint32, detail::reduce_int32, detail::divide_integers<std::uint32_t>},
    {DataType::uint64, detail::reduce_int64, detail::divide_integers<std::uint64_t>},
}};
static_assert(std::ranges::equal(kImplementations, kDataTypes, {}, &Implementation::type));

const Implementation& implementation(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  COHORT_ASSERT(index < kImplementations.size(), "{} is not combined", to_string(type));
  return kImplementations[index];
}

void run_kernel(const Reduction& r) noexcept {
  const bool is_of_bits = is_for_integers(r.op) && !is_logical(r.op);
  (is_of_bits ? detail::reduce_bits : implementation(r.type).kernel)(r);
}

/// One tile of any number of inputs, from `offset` bytes on, all done but the storing.
void reduce_tile(const Reduction& r, std::size_t offset, std::size_t count, std::byte* tile) noexcept {
  const Implementation& implemented = implementation(r.type);
  std::array<const std::byte*, kMaxFanIn> inputs;
  std::size_t taken = 0;
  while (taken < r.inputs.size()) {
    std::size_t n = 0;
    if (taken > 0) inputs[n++] = tile;  // what is combined so far stays on the left
    while (n < kMaxFanIn && taken < r.inputs.size()) inputs[n++] = r.inputs[taken++] + offset;
    const std::size_t divisor = taken == r.inputs.size() ? r.average_over : 0;
    run_kernel({r.type, r.op, count, std::span(inputs).first(n), std::span(&tile, 1), divisor});
  }
  if (r.average_over > 0 && implemented.divide != nullptr) implemented.divide(tile, count, r.average_over);
}

/// Stores a result at `offset` bytes of every output, without a fence.
void store(const Reduction& r, std::size_t offset, std::size_t bytes, const std::byte* result) noexcept {
  for (std::byte* const output : r.outputs) {
    if (r.stores == Stores::streaming) {
      detail::stream_copy(output + offset, result, bytes);
    } else {
      copy(output + offset, result, bytes, Stores::cached);
    }
  }
}

void reduce_by_tiles(const Reduction& r) noexcept {
  alignas(detail::kStreamAlignment) std::array<std::byte, kTileBytes> tile;
  const std::size_t element = size_bytes(r.type);
  const std::size_t total = r.count * element;
  const bool only_copies = r.inputs.size() == 1 && r.average_over == 0;
  for (std::size_t offset = 0; offset < total; offset += kTileBytes) {
    const std::size_t bytes = std::min(kTileBytes, total - offset);
    if (only_copies) {
      store(r, offset, bytes, r.inputs[0] + offset);
    } else {
      reduce_tile(r, offset, bytes / element, tile.data());
      store(r, offset, bytes, tile.data());
    }
  }
}

bool are_aligned_alike(std::span<std::byte* const> outputs) noexcept {
  return std::all_of(outputs.begin(), outputs.end(), [&](const std::byte* output) {
    return detail::bytes_to_alignment(output) == detail::bytes_to_alignment(outputs[0]);
  });
}

/// Whether one call of the kernel does it all.
bool is_single_pass(const Reduction& r) noexcept {
  const Implementation& implemented = implementation(r.type);
  if (r.inputs.size() == 1 && r.average_over == 0) return false;
  if (r.inputs.size() > kMaxFanIn && !implemented.rounds) return false;
  if (r.average_over > 0 && implemented.divide != nullptr) return false;
  return r.stores == Stores::cached || are_aligned_alike(r.outputs);
}

/// Results that tiles would round in between go through the cache instead.
bool needs_all_inputs_at_once(const Reduction& r) noexcept {
  return r.inputs.size() > kMaxFanIn && implementation(r.type).rounds;
}

}  // namespace

void reduce(const Reduction& r) noexcept {
  COHORT_ASSERT(!r.inputs.empty() && !r.outputs.empty(), "{} inputs, {} outputs", r.inputs.size(),
                r.outputs.size());
  COHORT_ASSERT(applies(r.op, r.type), "{} of {}", to_string(r.op), to_string(r.type));
  COHORT_ASSERT(r.average_over == 0 || r.op == ReduceOp::avg, "{} is not divided by {}", to_string(r.op),
                r.average_over);
  COHORT_ASSERT(r.average_over <= detail::kMaxDivisor, "an average over {} ranks", r.average_over);
  if (r.count == 0) return;
  if (is_single_pass(r)) {
    run_kernel(r);
  } else if (needs_all_inputs_at_once(r)) {
    Reduction cached = r;
    cached.stores = Stores::cached;
    run_kernel(cached);
  } else {
    reduce_by_tiles(r);
  }
  if (r.stores == Stores::streaming) detail::streaming_fence();
}

void reduce_into(DataType type, ReduceOp op, std::byte* inout, const std::byte* in,
                 std::size_t count) noexcept {
  const std::array<const std::byte*, 2> inputs{inout, in};
  reduce({type, op, count, inputs, std::span(&inout, 1)});
}

void finish_average(DataType type, std::byte* data, std::size_t count, std::size_t ranks) noexcept {
  COHORT_ASSERT(ranks > 0, "an average over no ranks");
  const std::byte* const input = data;
  reduce({type, ReduceOp::avg, count, std::span(&input, 1), std::span(&data, 1), ranks});
}

}  // namespace cohort
