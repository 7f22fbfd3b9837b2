// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/transfer.h>

#include <cohort/collectives/core/communicator_core.h>
#include <cohort/engine/assert.h>

#include <fmt/format.h>

namespace cohort::detail {
namespace {

[[noreturn, gnu::cold]] void refuse(const CommunicatorCore& core, const MessageRequest& request,
                                    std::string_view why) {
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("{} of {} bytes with tag {} on '{}': {}", request.sends ? "send" : "recv",
                          request.bytes, request.tag, core.membership().name, why));
}

constexpr std::size_t kMostBytes = (std::size_t{1} << 48) - 1;

}  // namespace

TransferBase::TransferBase(CommunicatorCore& core, bool sends, Rank peer, std::int32_t tag, std::byte* data,
                           std::size_t bytes)
    : TransferBase(core, {.sends = sends, .peer = peer, .tag = tag, .data = data, .bytes = bytes}) {
  const Membership& membership = core.membership();
  if (peer == MessageRequest::kAnybody && membership.size == 1) [[unlikely]]
    refuse(core, request_, "there is no other rank that could send it; a rank keeps what it has");
  if (peer == membership.rank) [[unlikely]]
    refuse(core, request_, "the other end is this rank itself; copy what it has");
}

TransferBase::TransferBase(CommunicatorCore& core, const MessageRequest& request)
    : core_(&core), request_(request) {
  const Membership& membership = core.membership();
  if (request.peer != MessageRequest::kAnybody && request.peer >= membership.size) [[unlikely]]
    refuse(core, request,
           fmt::format("there is no rank {}; the ranks are 0 to {}", request.peer, membership.size - 1));
  if (request.bytes > kMostBytes) [[unlikely]]
    refuse(core, request, "more than any memory has; did the count fall below zero?");
  if (request.data == nullptr && request.bytes != 0) [[unlikely]]
    refuse(core, request, "the buffer is null; give it memory, or no elements");
}

bool TransferBase::complete_now(const CancelScope* scope) {
  COHORT_ASSERT(core_ != nullptr, "this message was awaited or moved from before");
  CommunicatorCore& core = *std::exchange(core_, nullptr);
  COHORT_ASSERT(
      core.engine().is_current(),
      "a message on '{}' was awaited on another engine than its communicator's; await it in a task of "
      "that engine, or post() one there",
      core.membership().name);
  const bool may_begin = scope == nullptr || !scope->is_cancelled();
  if (may_begin && core.try_transfer_now(request_)) return true;
  task_ = core.transfer(request_);
  return false;
}

}  // namespace cohort::detail
