// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/tensor_plan.h>

#include <cohort/collectives/call/call.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace cohort {
namespace {

/// Those that data and models are shared out with. Others move what their callers lay out anyhow.
bool is_for_several(Operator op) {
  return op == operator_of<AllReduce> || op == operator_of<ReduceScatter> || op == operator_of<AllGather> ||
         op == operator_of<Broadcast> || op == operator_of<Reduce>;
}

void check_lists(const TensorCall& call, Rank rank, Rank ranks) {
  const auto& [in, out, is_own_block, reduce, root] = call.arguments;
  if (!is_for_several(call.op))
    refuse_call(fmt::format("{} is not for several tensors in one call: make a call for each of them",
                            to_string(call.op)));
  const Form unit{.count = 1, .ranks = ranks, .root = root};
  const bool has_input = !call.op->has_one_buffer && !is_own_block;
  const bool may_lack_output = call.op->extent(unit, rank).recv == 0 && out.size == 0;
  if (has_input && in.size != out.size && !may_lack_output)
    refuse_call(fmt::format("{} of {} tensors with {} outputs; give one for each", to_string(call.op),
                            in.size, out.size));
  if (has_input && in.type != out.type)
    refuse_call(fmt::format("{} of {} tensors into {}: all tensors of a call have one type",
                            to_string(call.op), to_string(in.type), to_string(out.type)));
}

}  // namespace

TensorPlan::Places TensorPlan::places_of(const TensorCall& call, std::size_t tensor, Rank rank, Rank ranks) {
  const TensorArguments& given = call.arguments;
  Places places;
  if (tensor < given.out.size) places.out = given.out[tensor];
  if (given.is_own_block) {
    const std::size_t element = size_bytes(given.out.type);
    const std::size_t block = places.out.size() / element / ranks * element;
    places.in = places.out.subspan(rank * block, block);
  } else if (tensor < given.in.size) {
    places.in = given.in[tensor];
  }
  return places;
}

Call TensorPlan::call_of(const TensorCall& call, std::size_t tensor, Rank rank, Rank ranks) {
  const Places places = places_of(call, tensor, rank, ranks);
  CallArguments arguments{.type = call.arguments.out.type};
  arguments.reduce = call.arguments.reduce;
  arguments.root = call.arguments.root;
  arguments.in = places.in;
  arguments.out = places.out;
  return make_call(call.op, arguments, rank, ranks);
}

void TensorPlan::begin(const TensorCall& call, Rank rank, Rank ranks) {
  check_lists(call, rank, ranks);
  const TensorArguments& given = call.arguments;
  const std::size_t tensors = std::max(given.in.size, given.out.size);
  counts_.resize(tensors);
  stretches_.clear();
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    try {
      take(call_of(call, tensor, rank, ranks), tensor);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("tensor {} of {}: {}", tensor, tensors, error.message()));
    }
  }
  if (tensors == 0) (void)call_of(call, 0, rank, ranks);  // what is wrong whatever the tensors
  refuse_overlaps(call.op);
  const std::size_t bytes_per_count = call.op.elements_per_count(ranks) * size_bytes(given.out.type);
  most_packed_ = kMostPackedBytes / bytes_per_count;
  most_together_ = kMessageBytes / bytes_per_count;
  next_packed_ = 0;
  next_alone_ = 0;
  has_message_ = false;
}

/// A broadcast's buffer is written to, or read where it is the root's.
void TensorPlan::take(const Call& call, std::size_t tensor) {
  counts_[tensor] = call.count;
  if (call.recv_bytes != 0) stretches_.push_back({call.recv, call.recv + call.recv_bytes, tensor, true});
  const bool is_apart = call.send_bytes != 0 && !call.op->has_one_buffer && call.send != call.recv;
  if (is_apart) stretches_.push_back({call.send, call.send + call.send_bytes, tensor, false});
}

/// Sweeps over what all calls touch, by address. What one tensor's call itself touches is right already.
void TensorPlan::refuse_overlaps(Operator op) {
  const auto by_begin = [](const Stretch& a, const Stretch& b) { return std::less<>()(a.begin, b.begin); };
  if (!std::is_sorted(stretches_.begin(), stretches_.end(), by_begin))
    std::sort(stretches_.begin(), stretches_.end(), by_begin);
  // Those that go on farthest, of all before and of those that are written to; and of all the second one,
  // which belongs to another tensor.
  const Stretch* farthest = nullptr;
  const Stretch* second = nullptr;
  const Stretch* written = nullptr;
  const auto meets = [](const Stretch* earlier, const Stretch& next) {
    return earlier != nullptr && earlier->tensor != next.tensor && std::less<>()(next.begin, earlier->end);
  };
  for (const Stretch& next : stretches_) {
    const Stretch* other = nullptr;
    if (meets(written, next)) other = written;
    if (next.is_written && meets(farthest, next)) other = farthest;
    if (next.is_written && meets(second, next)) other = second;
    if (other != nullptr) {
      const auto [low, high] = std::minmax(other->tensor, next.tensor);
      refuse_call(
          fmt::format("{}: tensors {} and {} overlap, and one of them is written to; give separate memory",
                      to_string(op), low, high));
    }
    if (next.is_written && (written == nullptr || written->end < next.end)) written = &next;
    if (farthest == nullptr || farthest->end < next.end) {
      if (farthest != nullptr && farthest->tensor != next.tensor) second = farthest;
      farthest = &next;
    } else if (next.tensor != farthest->tensor && (second == nullptr || second->end < next.end)) {
      second = &next;
    }
  }
}

std::optional<TensorPlan::Message> TensorPlan::next_packed() noexcept {
  Message message{.is_packed = true};
  std::size_t tensors = 0;
  for (; next_packed_ < counts_.size(); ++next_packed_) {
    if (!is_packed(next_packed_)) continue;
    const std::size_t count = counts_[next_packed_];
    if (tensors != 0 && message.count + count > most_together_) break;
    if (tensors++ == 0) message.first = next_packed_;
    message.count += count;
  }
  message.end = next_packed_;
  if (tensors == 0) return std::nullopt;
  message.is_packed = tensors > 1;
  return message;
}

std::optional<TensorPlan::Message> TensorPlan::next() noexcept {
  std::optional<Message> message = next_packed();
  for (; !message && next_alone_ < counts_.size(); ++next_alone_)
    if (counts_[next_alone_] != 0 && !is_packed(next_alone_))
      message = {.first = next_alone_, .end = next_alone_ + 1, .count = counts_[next_alone_]};
  if (!message && !has_message_) message = Message{.is_packed = true};
  has_message_ = true;
  return message;
}

}  // namespace cohort
