// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/shape.h>

namespace cohort::check {
namespace {

constexpr std::size_t kSendMemory = 0;
constexpr std::size_t kRecvMemory = 1;

std::size_t bytes_of(const CheckOptions& options) { return options.count * size_bytes(options.type); }

WindowPlace& window(RankPlan& share, WindowId id) { return share.windows[static_cast<std::size_t>(id)]; }

/// The user windows in memories of their own, or one inside of the other's.
void place(RankPlan& share, const WindowPlace& send, const WindowPlace& recv) {
  window(share, WindowId::send) = send;
  window(share, WindowId::recv) = recv;
  for (const WindowPlace& one : {send, recv}) {
    std::size_t& memory = share.allocations[one.allocation];
    memory = std::max(memory, one.offset + one.bytes);
  }
}

Combine combine_of(const CheckOptions& options) { return {options.type, options.reduce, options.ranks}; }

}  // namespace

Barrier Shape<Barrier>::op(const CheckOptions&) { return {}; }
void Shape<Barrier>::fill(const CheckOptions&, Plan& plan) {
  for (RankPlan& share : plan.shares) place(share, {kSendMemory, 0, 0}, {kRecvMemory, 0, 0});
}
std::uint64_t Shape<Barrier>::least_to_all(const CheckOptions&) { return 0; }

Broadcast Shape<Broadcast>::op(const CheckOptions& options) {
  return {{WindowId::recv, 0, bytes_of(options)}, options.root, size_bytes(options.type)};
}
void Shape<Broadcast>::fill(const CheckOptions& options, Plan& plan) {
  const Slice data = op(options).data;
  for (RankPlan& share : plan.shares) {
    place(share, {kSendMemory, 0, 0}, {kRecvMemory, 0, data.bytes});
    share.gets.push_back({data, false, options.root, 0});
  }
  plan.shares[options.root].gives.push_back({data, false, options.root, 0});
}
std::uint64_t Shape<Broadcast>::least_to_all(const CheckOptions& options) {
  return std::uint64_t{bytes_of(options)} * (options.ranks - 1);
}

AllReduce Shape<AllReduce>::op(const CheckOptions& options) {
  const std::size_t bytes = bytes_of(options);
  return {
      {WindowId::send, 0, bytes}, {WindowId::recv, 0, bytes}, combine_of(options), size_bytes(options.type)};
}
void Shape<AllReduce>::fill(const CheckOptions& options, Plan& plan) {
  const AllReduce op_of = op(options);
  const std::size_t bytes = bytes_of(options);
  plan.combines = plan.has_result_everywhere = true;
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    RankPlan& share = plan.shares[rank];
    place(share, {kSendMemory, 0, bytes}, {options.is_in_place ? kSendMemory : kRecvMemory, 0, bytes});
    share.gives.push_back({op_of.send, false, rank, 0});
    share.gets.push_back({op_of.recv, true, 0, 0});
    if (!options.is_in_place) share.gets.push_back({op_of.send, false, rank, 0});
  }
}
std::uint64_t Shape<AllReduce>::least_to_all(const CheckOptions& options) {
  return 2 * std::uint64_t{bytes_of(options)} * (options.ranks - 1);
}

AllGather Shape<AllGather>::op(const CheckOptions& options) {
  const std::size_t block = bytes_of(options);
  return {{WindowId::send, 0, block}, {WindowId::recv, 0, block}, block, size_bytes(options.type)};
}
void Shape<AllGather>::fill(const CheckOptions& options, Plan& plan) {
  const AllGather op_of = op(options);
  const std::size_t block = bytes_of(options);
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    RankPlan& share = plan.shares[rank];
    const WindowPlace apart{kSendMemory, 0, block};
    const WindowPlace inside{kRecvMemory, rank * block, block};
    place(share, options.is_in_place ? inside : apart, {kRecvMemory, 0, block * options.ranks});
    share.gives.push_back({op_of.send, false, rank, 0});
    for (Rank of = 0; of < options.ranks; ++of) share.gets.push_back({op_of.block(of), false, of, 0});
    if (!options.is_in_place) share.gets.push_back({op_of.send, false, rank, 0});
  }
}
std::uint64_t Shape<AllGather>::least_to_all(const CheckOptions& options) {
  return std::uint64_t{bytes_of(options)} * (options.ranks - 1) * options.ranks;
}

ReduceScatter Shape<ReduceScatter>::op(const CheckOptions& options) {
  const std::size_t block = bytes_of(options);
  return {{WindowId::send, 0, block},
          {WindowId::recv, 0, block},
          block,
          combine_of(options),
          size_bytes(options.type)};
}
void Shape<ReduceScatter>::fill(const CheckOptions& options, Plan& plan) {
  const ReduceScatter op_of = op(options);
  const std::size_t block = bytes_of(options);
  const Slice all{WindowId::send, 0, block * options.ranks};
  plan.combines = true;
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    RankPlan& share = plan.shares[rank];
    const WindowPlace apart{kRecvMemory, 0, block};
    const WindowPlace inside{kSendMemory, rank * block, block};
    place(share, {kSendMemory, 0, all.bytes}, options.is_in_place ? inside : apart);
    share.gives.push_back({all, false, rank, 0});
    share.gets.push_back({op_of.recv, true, 0, rank * block});
    if (!options.is_in_place) share.gets.push_back({all, false, rank, 0});
  }
}
std::uint64_t Shape<ReduceScatter>::least_to_all(const CheckOptions& options) {
  return std::uint64_t{bytes_of(options)} * (options.ranks - 1) * options.ranks;
}

}  // namespace cohort::check
