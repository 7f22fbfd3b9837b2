// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/plan.h>

#include <cohort/engine/tuning.h>

#include <algorithm>

namespace cohort::check {
namespace {

constexpr std::size_t kSendMemory = 0;
constexpr std::size_t kRecvMemory = 1;
constexpr std::size_t kCclInMemory = 2;
constexpr std::size_t kCclOutMemory = 3;
constexpr std::size_t kScratchMemory = 4;
constexpr std::size_t kSlotMemory = 5;  ///< and the next
constexpr std::size_t kMemories = 7;

WindowPlace& window(RankPlan& share, WindowId id) { return share.windows[static_cast<std::size_t>(id)]; }

void enlarge(RankPlan& share, const WindowPlace& place) {
  std::size_t& memory = share.allocations[place.allocation];
  memory = std::max(memory, place.offset + place.bytes);
}

/// The user windows in memories of their own, or the smaller inside of the larger.
void place_user_windows(RankPlan& share, Operator op, const CheckOptions& options, Rank rank) {
  const std::size_t element = size_bytes(options.type);
  const Extent extent = op->extent(options.form(), rank);
  WindowPlace send{kSendMemory, 0, extent.send * element};
  WindowPlace recv{kRecvMemory, 0, extent.recv * element};
  if (options.is_in_place || op->has_one_buffer) {
    const InPlace at = op->in_place(options.form(), rank);
    if (send.bytes >= recv.bytes)
      recv = {kSendMemory, (at.send_at - at.recv_at) * element, recv.bytes};
    else
      send = {kRecvMemory, (at.recv_at - at.send_at) * element, send.bytes};
  }
  window(share, WindowId::send) = send;
  window(share, WindowId::recv) = recv;
  enlarge(share, send);
  enlarge(share, recv);
}

/// By the operator's definition.
void fill_shares(RankPlan& share, Operator op, const CheckOptions& options, Rank rank) {
  const std::size_t element = size_bytes(options.type);
  const Slice input{WindowId::send, 0, window(share, WindowId::send).bytes};
  if (!input.empty()) share.gives.push_back({input, false, rank, rank + 1, 0});
  const bool gets = op->extent(options.form(), rank).recv != 0;
  for (const ResultPart& part : op->result(options.form(), rank)) {
    if (part.is_combined()) share.average_over = part.end - part.first;
    if (!gets) continue;
    share.gets.push_back({{WindowId::recv, part.at * element, part.elements * element},
                          part.is_combined(),
                          part.first,
                          part.end,
                          part.from * element});
  }
  const bool is_replaced = gets && (options.is_in_place || op->has_one_buffer);
  const bool keeps_input = !is_replaced && !input.empty();
  if (keeps_input) share.gets.push_back({input, false, rank, rank + 1, 0});
  const bool is_source = op->has_one_buffer && !input.empty();
  if (!keeps_input && !is_source) return;
  const WindowPlace& send = window(share, WindowId::send);
  share.kept.push_back({send.allocation, send.offset, send.offset + send.bytes});
}

bool has_same_result_everywhere(Operator op, const CheckOptions& options) {
  const Form form = options.form();
  const Result first = op->result(form, 0);
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    const bool gets = op->extent(form, rank).recv != 0 && !first.empty();
    if (!gets || op->result(form, rank) != first) return false;
  }
  return true;
}

}  // namespace

Plan plan_of(const AnyAlgorithm& algorithm, const CheckOptions& options, std::size_t piece) {
  const Operator op = algorithm.op();
  Plan plan;
  plan.op = op;
  plan.ranks = options.ranks;
  plan.hosts = options.hosts();
  plan.root = options.root;
  plan.is_mapped_group = algorithm.scope() != Scope::network;
  plan.meets_with_data = algorithm.announces() == Announces::data;
  plan.has_levels = algorithm.levels() != Levels::none;
  plan.goes_ahead =
      options.goes_ahead && plan.meets_with_data && op.is_one_way() && options.referring == Referring::nobody;
  plan.empty_messages_order = options.empty_messages_order;
  if (algorithm.keeps_to_blocks() && !options.is_in_place)
    plan.block_bytes = op->extent(options.form(), 0).recv / options.ranks * size_bytes(options.type);
  plan.host = options.host_plan();
  plan.staged_by_each = options.staged_by_each;
  plan.combine = Combine(options.type, options.reduce, options.ranks);
  plan.is_averaged = options.reduce == ReduceOp::avg && options.ranks > 1;
  plan.combines = op->combines;
  plan.order = algorithm.order();
  plan.has_result_everywhere = op->combines && has_same_result_everywhere(op, options);
  plan.needs = algorithm.needs(class_bytes(size_class(piece)), plan.hosts);
  plan.ccl_bytes = options.buffer_bytes;
  plan.untaken_posts = options.untaken_posts;
  plan.finds_waste = options.checks_cost;
  plan.tags_signals = options.tags_signals;
  plan.is_eager = options.is_eager;
  plan.seed = options.seed;
  plan.shares.resize(options.ranks);
  const std::size_t slot_bytes = plan.meets_with_data ? tuning::slots::kMostBytes : 0;
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    RankPlan& share = plan.shares[rank];
    plan.refers.push_back(refers(options.referring, rank));
    share.allocations.assign(kMemories, 0);
    window(share, WindowId::ccl_in) = {kCclInMemory, 0, options.buffer_bytes};
    window(share, WindowId::ccl_out) = {kCclOutMemory, 0, options.buffer_bytes};
    window(share, WindowId::scratch) = {kScratchMemory, 0, plan.needs.scratch_bytes};
    window(share, WindowId::slot) = {kSlotMemory, 0, slot_bytes};
    share.slots = {WindowPlace{kSlotMemory, 0, slot_bytes}, WindowPlace{kSlotMemory + 1, 0, slot_bytes}};
    for (const WindowPlace& place : share.windows) enlarge(share, place);
    enlarge(share, share.slots[1]);
    place_user_windows(share, op, options, rank);
    fill_shares(share, op, options, rank);
    plan.has_parts = plan.has_parts || (share.average_over != 0 && share.average_over != options.ranks);
  }
  return plan;
}

}  // namespace cohort::check
