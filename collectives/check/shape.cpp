// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/check/shape.h>

namespace cohort::check {
namespace {

constexpr std::size_t kSendMemory = 0;
constexpr std::size_t kRecvMemory = 1;

std::size_t bytes_of(const Setup& setup) { return setup.count * size_bytes(setup.type); }

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

Combine combine_of(const Setup& setup) { return {setup.type, setup.reduce, setup.ranks}; }

}  // namespace

Barrier Shape<Barrier>::op(const Setup&) { return {}; }
void Shape<Barrier>::fill(const Setup&, Plan& plan) {
  for (RankPlan& share : plan.shares) place(share, {kSendMemory, 0, 0}, {kRecvMemory, 0, 0});
}
std::uint64_t Shape<Barrier>::least_to_all(const Setup&) { return 0; }

Broadcast Shape<Broadcast>::op(const Setup& setup) {
  return {{WindowId::recv, 0, bytes_of(setup)}, setup.root, size_bytes(setup.type)};
}
void Shape<Broadcast>::fill(const Setup& setup, Plan& plan) {
  const Slice data = op(setup).data;
  for (RankPlan& share : plan.shares) {
    place(share, {kSendMemory, 0, 0}, {kRecvMemory, 0, data.bytes});
    share.gets.push_back({data, false, setup.root, 0});
  }
  plan.shares[setup.root].gives.push_back({data, false, setup.root, 0});
}
std::uint64_t Shape<Broadcast>::least_to_all(const Setup& setup) {
  return std::uint64_t{bytes_of(setup)} * (setup.ranks - 1);
}

AllReduce Shape<AllReduce>::op(const Setup& setup) {
  const std::size_t bytes = bytes_of(setup);
  return {{WindowId::send, 0, bytes}, {WindowId::recv, 0, bytes}, combine_of(setup), size_bytes(setup.type)};
}
void Shape<AllReduce>::fill(const Setup& setup, Plan& plan) {
  const AllReduce op_of = op(setup);
  const std::size_t bytes = bytes_of(setup);
  plan.combines = plan.has_result_everywhere = true;
  for (Rank rank = 0; rank < setup.ranks; ++rank) {
    RankPlan& share = plan.shares[rank];
    place(share, {kSendMemory, 0, bytes}, {setup.is_in_place ? kSendMemory : kRecvMemory, 0, bytes});
    share.gives.push_back({op_of.send, false, rank, 0});
    share.gets.push_back({op_of.recv, true, 0, 0});
    if (!setup.is_in_place) share.gets.push_back({op_of.send, false, rank, 0});
  }
}
std::uint64_t Shape<AllReduce>::least_to_all(const Setup& setup) {
  return 2 * std::uint64_t{bytes_of(setup)} * (setup.ranks - 1);
}

AllGather Shape<AllGather>::op(const Setup& setup) {
  const std::size_t block = bytes_of(setup);
  return {{WindowId::send, 0, block}, {WindowId::recv, 0, block}, block, size_bytes(setup.type)};
}
void Shape<AllGather>::fill(const Setup& setup, Plan& plan) {
  const AllGather op_of = op(setup);
  const std::size_t block = bytes_of(setup);
  for (Rank rank = 0; rank < setup.ranks; ++rank) {
    RankPlan& share = plan.shares[rank];
    const WindowPlace apart{kSendMemory, 0, block};
    const WindowPlace inside{kRecvMemory, rank * block, block};
    place(share, setup.is_in_place ? inside : apart, {kRecvMemory, 0, block * setup.ranks});
    share.gives.push_back({op_of.send, false, rank, 0});
    for (Rank of = 0; of < setup.ranks; ++of) share.gets.push_back({op_of.block(of), false, of, 0});
    if (!setup.is_in_place) share.gets.push_back({op_of.send, false, rank, 0});
  }
}
std::uint64_t Shape<AllGather>::least_to_all(const Setup& setup) {
  return std::uint64_t{bytes_of(setup)} * (setup.ranks - 1) * setup.ranks;
}

ReduceScatter Shape<ReduceScatter>::op(const Setup& setup) {
  const std::size_t block = bytes_of(setup);
  return {{WindowId::send, 0, block},
          {WindowId::recv, 0, block},
          block,
          combine_of(setup),
          size_bytes(setup.type)};
}
void Shape<ReduceScatter>::fill(const Setup& setup, Plan& plan) {
  const ReduceScatter op_of = op(setup);
  const std::size_t block = bytes_of(setup);
  const Slice all{WindowId::send, 0, block * setup.ranks};
  plan.combines = true;
  for (Rank rank = 0; rank < setup.ranks; ++rank) {
    RankPlan& share = plan.shares[rank];
    const WindowPlace apart{kRecvMemory, 0, block};
    const WindowPlace inside{kSendMemory, rank * block, block};
    place(share, {kSendMemory, 0, all.bytes}, setup.is_in_place ? inside : apart);
    share.gives.push_back({all, false, rank, 0});
    share.gets.push_back({op_of.recv, true, 0, rank * block});
    if (!setup.is_in_place) share.gets.push_back({all, false, rank, 0});
  }
}
std::uint64_t Shape<ReduceScatter>::least_to_all(const Setup& setup) {
  return std::uint64_t{bytes_of(setup)} * (setup.ranks - 1) * setup.ranks;
}

}  // namespace cohort::check
