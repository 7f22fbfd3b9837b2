// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_queue.h>

#include <cohort/engine/assert.h>

#include <algorithm>
#include <iterator>
#include <new>

namespace cohort {
namespace {

using Type = ControlMessage::Type;

bool stands_for(const ControlMessage& later, const ControlMessage& earlier) noexcept {
  if (later.type != earlier.type || later.group != earlier.group) return false;
  if (later.origin != earlier.origin || later.to != earlier.to) return false;
  switch (later.type) {
    case Type::status:
    case Type::query:
    case Type::answer:
    case Type::accept:
    case Type::agree:
    case Type::gives_up: return true;
    case Type::lost:
    case Type::alive: return later.culprit == earlier.culprit;
    case Type::hello:
    case Type::revoke:
    case Type::goodbye:
    case Type::invite: return false;
  }
  return false;
}

}  // namespace

ControlQueue::Place ControlQueue::first_unsent() noexcept {
  return sent_bytes_ == 0 ? messages_.begin() : std::next(messages_.begin());
}

ControlQueue::Place ControlQueue::drop(Place at) noexcept {
  if (at->message.type == Type::invite) --invites_;
  if (at->is_of_given_up) --given_up_;
  return messages_.erase(at);
}

template <class Predicate>
void ControlQueue::drop_if(const Predicate& predicate) noexcept {
  for (Place at = first_unsent(); at != messages_.end();)
    at = predicate(at->message) ? drop(at) : std::next(at);
}

void ControlQueue::drop_superseded_by(const ControlMessage& message) noexcept {
  if (message.is_last_word() || message.type == Type::invite) return;
  drop_if([&](const ControlMessage& earlier) { return stands_for(message, earlier); });
}

/// Whoever asks for groups again and again of a peer that computes tells it of each that it is made, why it
/// was given up, and that it is over: all under one number, which is never used again. A group that accepts
/// an invitation of the peer's is none of these: the peer waits for what becomes of it.
void ControlQueue::note_given_up(GroupNumber group) noexcept {
  if (invites_ == 0) return;
  const auto find_from = [&](Place first, Type type) {
    return std::find_if(first, messages_.end(), [&](const Waiting& one) {
      return one.message.type == type && one.message.group == group;
    });
  };
  const Place invite = find_from(first_unsent(), Type::invite);
  if (find_from(invite, Type::revoke) == messages_.end()) return;
  if (find_from(invite, Type::accept) != messages_.end()) return;
  invite->is_of_given_up = true;
  if (++given_up_ <= kMostGivenUp) return;
  const auto oldest =
      std::find_if(first_unsent(), messages_.end(), [](const Waiting& one) { return one.is_of_given_up; });
  const GroupNumber dropped = oldest->message.group;
  drop_if([dropped](const ControlMessage& message) { return message.group == dropped; });
}

bool ControlQueue::push(const ControlMessage& message, std::size_t sent_bytes) noexcept {
  COHORT_ASSERT(sent_bytes == 0 || is_empty(), "{} bytes are sent of a message behind others", sent_bytes);
  drop_superseded_by(message);
  if (is_full()) return false;
  try {
    messages_.push_back({message});
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (messages_.size() == 1) sent_bytes_ = sent_bytes;
  if (message.type == Type::invite) ++invites_;
  const bool is_used = message.sequence != 0;
  if (message.type == Type::goodbye && !is_used) note_given_up(message.group);
  return true;
}

std::span<const std::byte> ControlQueue::unsent() const noexcept {
  return std::as_bytes(std::span(&messages_.front().message, 1)).subspan(sent_bytes_);
}

void ControlQueue::drop_sent(std::size_t bytes) noexcept {
  sent_bytes_ += bytes;
  if (sent_bytes_ < sizeof(ControlMessage)) return;
  sent_bytes_ = 0;
  drop(messages_.begin());
}

void ControlQueue::clear() noexcept {
  messages_.clear();
  sent_bytes_ = invites_ = given_up_ = 0;
}

}  // namespace cohort
