// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/two_shot.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>

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

/// Of a rank's share of a piece: few enough that there are several pieces, each far above what a message
/// costs.
constexpr std::size_t kPieceBlocks = 1024;
/// Turns that a piece is behind the first one when it is over.
constexpr std::size_t kTurns = 4;

/// In whole blocks for every rank, so that blocks are where they would be in one piece.
std::vector<TwoShots> cut(std::span<float> data, std::span<float> residual, const Communicator& communicator,
                          bool averages) {
  const std::size_t most = kPieceBlocks * kQuantisedBlock * communicator.size();
  std::vector<TwoShots> pieces;
  for (std::size_t at = 0; at < data.size(); at += most) {
    const std::size_t count = std::min(most, data.size() - at);
    const std::span<float> rest = residual.empty() ? residual : residual.subspan(at, count);
    pieces.emplace_back(data.subspan(at, count), rest, communicator.rank(), communicator.size(), averages);
  }
  return pieces;
}

}  // namespace

Task<> TwoShotCompressor::reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                                 bool averages) {
  if (data.empty()) co_return;
  const std::span<float> residual = with_residual(name, data);
  std::vector<TwoShots> pieces = cut(data, residual, communicator, averages);
  Engine& engine = communicator.engine();
  // In turn t a piece is exchanged while others are computed: each step needs what an earlier turn has left.
  for (std::size_t turn = 0; turn < pieces.size() + kTurns; ++turn) {
    const auto piece = [&](std::size_t later) -> TwoShots* {
      return turn >= later && turn - later < pieces.size() ? &pieces[turn - later] : nullptr;
    };
    const auto compute = [&] {
      if (TwoShots* const shots = piece(0)) shots->encode();
      if (TwoShots* const shots = piece(2)) shots->add_up();
      if (TwoShots* const shots = piece(4)) shots->decode();
    };
    const auto computing = [&]() -> Task<> {
      auto job = engine.offload(std::cref(compute));
      co_await job;
    };
    const auto exchanging = [&]() -> Task<> {
      if (TwoShots* const shots = piece(1))
        co_await communicator.all_to_all(DataType::byte, shots->sent, shots->received);
      if (TwoShots* const shots = piece(3))
        co_await communicator.all_gather(DataType::byte, shots->share, shots->received);
    };
    co_await when_all(computing(), exchanging());
  }
}

std::uint64_t TwoShotCompressor::equivalent_bytes(std::uint64_t elements, Rank ranks) const {
  return Shares(elements, ranks).bytes * ranks;
}

}  // namespace cohort::graph
