// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/beside.h>

#include <cohort/tools/soak/draws.h>

#include <algorithm>

namespace cohort::soak {
namespace {

using world::Random;

/// Of all messages of a communicator, so that they have no more to wait for than a call has.
constexpr std::size_t kMostBytesOfMessages = std::size_t{150} << 10;
constexpr std::int32_t kTagOfAnybody = 1000;

GroupPlan draw_group(Random& random, Rank ranks) {
  GroupPlan plan;
  plan.is_split = random.chance(50);
  const std::uint64_t colors = random.between(1, 2);
  for (Rank rank = 0; rank < ranks; ++rank) {
    plan.colors.push_back(random.chance(15) ? -1 : static_cast<int>(random.below(colors)));
    plan.keys.push_back(static_cast<int>(random.below(3)));
  }
  const std::size_t calls = random.between(1, 4);
  for (std::size_t i = 0; i < calls; ++i) {
    CallPlan& call = plan.calls.emplace_back(draw_call(random, ranks));
    call.counts.clear();  // groups differ in size
    call.is_allocated = false;
    call.algorithm = {};
  }
  return plan;
}

std::vector<MessagePlan> draw_messages(Random& random, Rank ranks) {
  std::vector<MessagePlan> messages;
  std::size_t left = kMostBytesOfMessages;
  constexpr std::size_t kBytes[] = {0, 1, 24, 1000, 8192, 8193, 20'000, 65'536, 70'000, 140'000};
  const bool has_any = random.chance(50);
  const auto anybody = static_cast<Rank>(random.below(ranks));
  constexpr std::size_t kBytesOfAny[] = {8, 9000, 20'000};
  const std::size_t bytes_of_any = random.pick(kBytesOfAny);
  const std::size_t many = random.between(1, 6);
  for (std::size_t i = 0; i < many; ++i) {
    MessagePlan message;
    message.from = static_cast<Rank>(random.below(ranks));
    message.to = (message.from + static_cast<Rank>(random.between(1, ranks - 1))) % ranks;
    message.tag = static_cast<std::int32_t>(random.below(2));
    message.bytes = std::min(random.pick(kBytes), left);
    message.is_for_anybody = has_any && message.from != anybody && random.chance(60);
    if (message.is_for_anybody) {
      message.to = anybody;
      message.tag = kTagOfAnybody;
      message.bytes = bytes_of_any;
    }
    left -= std::min(left, message.bytes);
    messages.push_back(message);
  }
  return messages;
}

}  // namespace

void draw_what_is_beside(Random& random, Job& job) {
  if (job.ranks == 1 || job.rival || !random.chance(33)) return;
  for (CommunicatorPlan& plan : job.communicators) {
    const std::uint64_t what = random.below(3);
    if (what != 0) plan.group = draw_group(random, job.ranks);
    if (what != 1) plan.messages = draw_messages(random, job.ranks);
  }
}

std::vector<Rank> GroupPlan::members(int color) const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < colors.size(); ++rank)
    if (color >= 0 && colors[rank] == color) ranks.push_back(rank);
  std::ranges::stable_sort(ranks, {}, [this](Rank rank) { return keys[rank]; });
  return ranks;
}

}  // namespace cohort::soak
