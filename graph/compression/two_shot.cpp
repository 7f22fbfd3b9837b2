// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/two_shot.h>

#include <cohort/engine/engine.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace cohort::graph {
namespace {

/// How a vector is cut into a share for each rank, in whole blocks; the last ones are padded.
struct Shares {
  std::size_t elements;  ///< of a share
  std::size_t blocks;
  std::size_t bytes;  ///< of a share as it travels: its scales, then its numbers

  Shares(std::size_t size, Rank ranks)
      : elements(((size + ranks - 1) / ranks + kQuantisedBlock - 1) / kQuantisedBlock * kQuantisedBlock),
        blocks(elements / kQuantisedBlock),
        bytes(blocks * sizeof(float) + elements) {}
};

void pack(std::span<const float> values, const Shares& shares, std::span<std::byte> to) {
  std::vector<float> padded(shares.elements, 0.0F);
  std::ranges::copy(values, padded.begin());
  const Quantised packed = quantise(padded);
  std::memcpy(to.data(), packed.scales.data(), shares.blocks * sizeof(float));
  std::memcpy(to.data() + shares.blocks * sizeof(float), packed.numbers.data(), shares.elements);
}

void add_unpacked(std::span<const std::byte> from, const Shares& shares, std::span<float> to) {
  std::vector<float> scales(shares.blocks);
  std::vector<std::int8_t> numbers(shares.elements);
  std::memcpy(scales.data(), from.data(), shares.blocks * sizeof(float));
  std::memcpy(numbers.data(), from.data() + shares.blocks * sizeof(float), shares.elements);
  add_dequantised(std::span(numbers).first(to.size()), scales, to);
}

/// One vector on its way.
class TwoShots {
 public:
  TwoShots(std::span<float> data, std::span<float> residual, Rank rank, Rank ranks, bool averages)
      : data_(data),
        residual_(residual),
        rank_(rank),
        ranks_(ranks),
        averages_(averages),
        shares_(data.size(), ranks),
        sent(shares_.bytes * ranks),
        received(shares_.bytes * ranks),
        share(shares_.bytes) {}

  void encode() {
    for (Rank to = 0; to < ranks_; ++to) {
      const std::span<float> values = part(data_, to);
      const std::span<std::byte> packed = packed_part(sent, to);
      pack(values, shares_, packed);
      if (residual_.empty()) continue;
      const std::span<float> rest = part(residual_, to);
      std::ranges::fill(rest, 0.0F);
      add_unpacked(packed, shares_, rest);
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = finite_or_zero(values[i] - rest[i]);
    }
  }
  void add_up() {
    std::vector<float> sum(part(data_, rank_).size(), 0.0F);
    for (Rank from = 0; from < ranks_; ++from) add_unpacked(packed_part(received, from), shares_, sum);
    if (averages_)
      for (float& value : sum) value /= static_cast<float>(ranks_);
    pack(sum, shares_, share);
    if (residual_.empty()) return;
    std::vector<float> rounded(sum.size(), 0.0F);
    add_unpacked(share, shares_, rounded);
    const std::span<float> rest = part(residual_, rank_);
    const float weight = averages_ ? static_cast<float>(ranks_) : 1.0F;
    for (std::size_t i = 0; i < rest.size(); ++i)
      rest[i] = finite_or_zero(rest[i] + weight * (sum[i] - rounded[i]));
  }
  void decode() {
    std::ranges::fill(data_, 0.0F);
    for (Rank from = 0; from < ranks_; ++from)
      add_unpacked(packed_part(received, from), shares_, part(data_, from));
  }

 private:
  [[nodiscard]] std::span<float> part(std::span<float> whole, Rank of) const {
    const std::size_t begin = std::min(whole.size(), of * shares_.elements);
    return whole.subspan(begin, std::min(shares_.elements, whole.size() - begin));
  }
  [[nodiscard]] std::span<std::byte> packed_part(std::vector<std::byte>& all, Rank of) const {
    return std::span(all).subspan(of * shares_.bytes, shares_.bytes);
  }

  std::span<float> data_;
  std::span<float> residual_;
  Rank rank_;
  Rank ranks_;
  bool averages_;
  Shares shares_;

 public:
  std::vector<std::byte> sent;
  std::vector<std::byte> received;
  std::vector<std::byte> share;
};

}  // namespace

Task<> TwoShotCompressor::reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                                 bool averages) {
  if (data.empty()) co_return;
  const std::span<float> residual = with_residual(name, data);
  TwoShots shots(data, residual, communicator.rank(), communicator.size(), averages);
  Engine& engine = communicator.engine();
  const auto encode = [&] { shots.encode(); };
  auto encoding = engine.offload(std::cref(encode));
  co_await encoding;
  co_await communicator.all_to_all(DataType::byte, shots.sent, shots.received);
  const auto add_up = [&] { shots.add_up(); };
  auto adding = engine.offload(std::cref(add_up));
  co_await adding;
  co_await communicator.all_gather(DataType::byte, shots.share, shots.received);
  const auto decode = [&] { shots.decode(); };
  auto decoding = engine.offload(std::cref(decode));
  co_await decoding;
}

std::uint64_t TwoShotCompressor::equivalent_bytes(std::uint64_t elements, Rank ranks) const {
  return Shares(elements, ranks).bytes * ranks;
}

}  // namespace cohort::graph
