// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/asking.h>

#include <cohort/bindings/hccl/handles.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace cohort::bindings::hccl {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
/// Messages have none: their order is all.
constexpr std::int32_t kTag = 0;

}  // namespace

Asking::Asking(const char* function, HcclComm comm, const void* stream)
    : function_(function),
      comm_(Handles<Comm>::all().find(&given(static_cast<char*>(comm), function, "comm"), function,
                                      "communicator")),
      stream_(Handles<Stream>::all().find(&given(static_cast<const char*>(stream), function, "stream"),
                                          function, "stream")) {
  call_.name = function;
  call_.kept = kept_;
  if (comm_->comm().is_closed()) refuse(fmt::format("{}: the communicator is closed", function));
}

void Asking::set_root(std::uint32_t root) {
  if (root >= ranks())
    refuse(fmt::format("{}: root is {}, and the ranks are 0 to {}", function_, root, ranks() - 1));
  root_ = root;
}

CallArguments Asking::arguments() const noexcept {
  CallArguments arguments{.type = element_.type};
  arguments.reduce = reduce_;
  arguments.root = root_;
  return arguments;
}

void Asking::need_memory(const void* first, std::size_t bytes, const char* name) const {
  if (bytes != 0) need(first, function_, name);
  if (bytes > kMost / 2) refuse(fmt::format("{}: {} is larger than any memory", function_, name));
}

void Asking::add_collective(Operator op, const void* in, void* out, std::uint64_t count) {
  const Extent unit = op->extent({.count = 1, .ranks = ranks(), .root = root_}, rank());
  CollectiveCall call{op, arguments()};
  const std::size_t in_bytes = op->has_one_buffer ? 0 : times(bytes_of(count), unit.send);
  const std::size_t out_bytes = times(bytes_of(count), unit.recv);
  need_memory(in, in_bytes, "sendBuf");
  need_memory(out, out_bytes, op->has_one_buffer ? "buf" : "recvBuf");
  if (!op->has_one_buffer) call.arguments.in = {static_cast<const std::byte*>(in), in_bytes};
  call.arguments.out = {static_cast<std::byte*>(out), out_bytes};
  call_.calls.emplace_back(call);
}

void Asking::add_barrier() { call_.calls.emplace_back(CollectiveCall{operator_of<Barrier>}); }

void Asking::add_with_counts(Operator op, std::span<const std::byte> in, std::span<std::byte> out,
                             std::vector<std::size_t> counts) {
  kept_->counts = std::move(counts);
  CollectiveCall call{op, arguments(), CollectiveCall::Counts::needed};
  call.arguments.in = in;
  call.arguments.out = out;
  call.arguments.counts = kept_->counts;
  call_.calls.emplace_back(call);
}

void Asking::add_all_to_all_v(const Blocks& in, const Blocks& out, bool are_alike) {
  if (!are_alike) element_ = ElementForm{};
  const auto in_units = [are_alike](const Blocks& blocks) {
    std::vector<std::size_t> counts = blocks.counts;
    for (std::size_t& count : counts) count *= are_alike ? 1 : blocks.element_bytes;
    return counts;
  };
  kept_->counts = in_units(in);
  kept_->recv_counts = in_units(out);
  CollectiveCall call{operator_of<AllToAllVc>, arguments(), CollectiveCall::Counts::of_rank};
  call.arguments.in = packed(in);
  call.arguments.out = unpacked(out);
  call.arguments.counts = kept_->counts;
  call.arguments.recv_counts = kept_->recv_counts;
  call_.calls.emplace_back(call);
}

void Asking::add_by_matrix(void* in, void* out, const void* matrix) {
  std::vector<std::size_t> counts = numbers(matrix, "sendCountMatrix", std::size_t{ranks()} * ranks());
  for (std::size_t& count : counts) count = times(count, element_.per_element);
  const Extent extent = operator_of<AllToAllVc>->extent({.ranks = ranks(), .counts = counts}, rank());
  const std::size_t element = size_bytes(element_.type);
  const std::size_t in_bytes = times(extent.send, element);
  const std::size_t out_bytes = times(extent.recv, element);
  need_memory(in, in_bytes, "sendBuf");
  need_memory(out, out_bytes, "recvBuf");
  add_with_counts(operator_of<AllToAllVc>, {static_cast<const std::byte*>(in), in_bytes},
                  {static_cast<std::byte*>(out), out_bytes}, std::move(counts));
}

void Asking::add_message(MessageCall::Direction direction, void* data, std::uint64_t count,
                         std::uint32_t peer) {
  if (peer >= ranks())
    refuse(fmt::format("{}: rank {} is none; the ranks are 0 to {}", function_, peer, ranks() - 1));
  const std::size_t bytes = bytes_of(count);
  need_memory(data, bytes, "buf");
  const std::span<std::byte> memory(static_cast<std::byte*>(data), bytes);
  const bool is_send = direction == MessageCall::Direction::send;
  if (peer == rank()) {
    (is_send ? has_from_self_ : has_to_self_) = true;
    if (is_send)
      from_self_ = memory;
    else
      to_self_ = memory;
    return;
  }
  call_.calls.emplace_back(MessageCall{direction, peer, kTag, memory});
}

void Asking::check_own(const Blocks& blocks, std::uint64_t count, const char* name) const {
  const std::size_t own = blocks.counts[rank()] / element_.per_element;
  if (own != count)
    refuse(fmt::format("{}: {} is {}, and by the counts of all it is {} for this rank {}", function_, name,
                       count, own, rank()));
}

std::vector<std::size_t> Asking::numbers(const void* first, const char* name, std::size_t count) const {
  need(first, function_, name);
  std::vector<std::uint64_t> numbers(count);
  std::memcpy(numbers.data(), first, count * sizeof(std::uint64_t));
  return {numbers.begin(), numbers.end()};
}

Blocks Asking::blocks(void* first, const char* name, const void* counts, const void* displacements) const {
  Blocks blocks;
  blocks.first = static_cast<std::byte*>(first);
  blocks.counts = numbers(counts, "counts", ranks());
  blocks.at = numbers(displacements, "displacements", ranks());
  blocks.element_bytes = size_bytes(element_.type);
  std::size_t all = 0;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const std::size_t end = blocks.at[rank] + blocks.counts[rank];
    const bool is_too_large = end < blocks.at[rank] || bytes_of(end) > kMost / 2 ||
                              bytes_of(all += std::min(blocks.counts[rank], kMost - all)) > kMost / 2;
    if (is_too_large)
      refuse(fmt::format("{}: what {} has for rank {} is larger than any memory", function_, name, rank));
    blocks.counts[rank] *= element_.per_element;
    blocks.at[rank] *= element_.per_element;
  }
  need_memory(first, blocks.size_bytes(), name);
  return blocks;
}

std::span<std::byte> Asking::whole(void* first, const char* name, std::uint64_t count) const {
  const std::size_t bytes = bytes_of(count);
  need_memory(first, bytes, name);
  return {static_cast<std::byte*>(first), bytes};
}

std::span<const std::byte> Asking::packed(const Blocks& blocks) {
  if (blocks.are_packed()) return blocks.whole();
  kept_->in.resize(blocks.size_bytes());
  call_.before = [blocks, kept = kept_] { blocks.copy_to(kept->in); };
  return kept_->in;
}

std::span<std::byte> Asking::unpacked(const Blocks& blocks) {
  if (blocks.are_packed()) return blocks.whole();
  kept_->out.resize(blocks.size_bytes());
  call_.after = [blocks, kept = kept_] { blocks.copy_from(kept->out); };
  return kept_->out;
}

void Asking::give_to_stream() {
  if (has_to_self_ != has_from_self_ || to_self_.size() != from_self_.size())
    refuse(fmt::format("{}: what this rank sends to itself has {} bytes, and what it receives of itself {}",
                       function_, from_self_.size(), to_self_.size()));
  if (!to_self_.empty())
    call_.after = [to = to_self_, from = from_self_] { std::memmove(to.data(), from.data(), to.size()); };
  comm_->add(*stream_, std::move(call_));
}

}  // namespace cohort::bindings::hccl
