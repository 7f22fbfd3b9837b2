// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/queue_pairs.h>

#include <cohort/net/verbs/ring.h>

#include <algorithm>
#include <array>

namespace cohort::verbs {
namespace {

constexpr QueuePair::Use kWithRings = {.sends = kSends,
                                       .receives = kReceives,
                                       // A header and a little more, so that the device fetches nothing.
                                       .inline_bytes = 220,
                                       .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
/// A part of each loan at the most. Nothing is received, but not every driver makes a queue for nothing.
constexpr QueuePair::Use kReadsOnly = {
    .sends = kMostLoans, .receives = 1, .inline_bytes = 0, .access = IBV_ACCESS_REMOTE_READ};

/// For the completions of all requests that may be under way.
int completions_of(std::uint32_t pairs) {
  return static_cast<int>(kWithRings.sends + kWithRings.receives + (pairs - 1) * kReadsOnly.sends);
}

}  // namespace

QueuePairs::QueuePairs(Device& device, DeviceUser& user, std::uint32_t pairs)
    : library_(device.library()),
      completions_(device.make_completion_queue(completions_of(pairs), user)),
      first_(device, user, completions_.get(), kWithRings) {
  while (count() < pairs)
    more_.push_back(std::make_unique<QueuePair>(device, user, completions_.get(), kReadsOnly));
}

void QueuePairs::tell(EndPoint& end) const noexcept {
  end.reads = first_.reads_served();
  end.pairs[0] = {first_.number(), first_.first_packet()};
  end.pair_count = static_cast<std::uint16_t>(count());
  for (std::size_t i = 0; i < more_.size(); ++i)
    end.pairs[i + 1] = {more_[i]->number(), more_[i]->first_packet()};
}

void QueuePairs::connect(const EndPoint& theirs) {
  more_.resize(std::min<std::size_t>(more_.size(), theirs.pair_count - 1U));
  for (std::uint32_t i = 0; i < count(); ++i) (*this)[i].connect(theirs, theirs.pairs[i]);
}

int QueuePairs::poll(std::span<ibv_wc> completions) noexcept {
  return library_.poll_cq(completions_.get(), static_cast<int>(completions.size()), completions.data());
}

int QueuePairs::ask_for_event() noexcept { return library_.req_notify_cq(completions_.get(), 0); }

void QueuePairs::stop() noexcept {
  first_.stop();
  for (const auto& pair : more_) pair->stop();
}

void QueuePairs::destroy() noexcept {
  first_.destroy();
  for (const auto& pair : more_) pair->destroy();
}

}  // namespace cohort::verbs
