// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/packed_tensors.h>

#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/collectives/memory/reduction/scale.h>

namespace cohort {
namespace {

/// A small tensor takes about as long as to copy so many bytes more.
constexpr std::size_t kTensorBytes = 256;

/// A root's own data is there already.
bool gets(const Call& call, Rank rank) {
  return call.recv_bytes != 0 && !(call.op->has_one_buffer && rank == call.root);
}

}  // namespace

Call PackedTensors::place(const TensorCall& call, const TensorPlan& plan,
                          const TensorPlan::Message& message) {
  call_ = &call;
  plan_ = &plan;
  message_ = message;
  const TensorArguments& given = call.arguments;
  const std::size_t bytes = message.count * size_bytes(given.out.type);
  const Form form{.count = bytes, .ranks = ranks_, .root = given.root};
  const Extent extent = call.op->extent(form, rank_);
  const InPlace in_place = call.op->in_place(form, rank_);
  std::byte* const room = room_.room_for(bytes * call.op.elements_per_count(ranks_));
  CallArguments arguments{.type = given.out.type};
  arguments.reduce = given.reduce;
  arguments.root = given.root;
  arguments.in = {room + in_place.recv_at, extent.send};
  arguments.out = {room + in_place.send_at, extent.recv};
  return make_call(call.op, arguments, rank_, ranks_);
}

template <class Move>
Task<> PackedTensors::move_blocks(const Call& whole, std::size_t blocks, Move move) {
  const std::size_t element = size_bytes(whole.type);
  std::size_t before = 0;  // bytes of the message's block
  for (std::size_t tensor = message_.first; tensor < message_.end; ++tensor) {
    if (!plan_->is_packed(tensor)) continue;
    const std::size_t bytes = plan_->counts()[tensor] * element;
    if (!engine_.pace().may_do(kTensorBytes + blocks * bytes)) co_await engine_.let_others_run();
    const TensorPlan::Places one = TensorPlan::places_of(*call_, tensor, rank_, ranks_);
    for (std::size_t block = 0; block < blocks; ++block)
      move(one, block * bytes, block * whole.message_bytes() + before, bytes);
    before += bytes;
  }
}

Task<> PackedTensors::pack(const Call& whole) {
  if (whole.send_bytes == 0) co_return;
  const bool is_broadcast = whole.op->has_one_buffer;
  const auto move = [&](const TensorPlan::Places& one, std::size_t at, std::size_t whole_at,
                        std::size_t bytes) {
    const std::byte* const from = (is_broadcast ? one.out.data() : one.in.data()) + at;
    if (whole.reduce == ReduceOp::scaled_sum)
      scale(whole.type, whole.factor, whole.send + whole_at, from, bytes / size_bytes(whole.type));
    else
      cohort::copy(whole.send + whole_at, from, bytes, Stores::cached);
  };
  co_await move_blocks(whole, whole.send_bytes / whole.message_bytes(), move);
}

Task<> PackedTensors::unpack(const Call& whole) {
  if (!gets(whole, rank_)) co_return;
  const auto move = [&](const TensorPlan::Places& one, std::size_t at, std::size_t whole_at,
                        std::size_t bytes) {
    cohort::copy(one.out.data() + at, whole.recv + whole_at, bytes, Stores::cached);
  };
  co_await move_blocks(whole, whole.recv_bytes / whole.message_bytes(), move);
}

}  // namespace cohort
