// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_relay.h>

#include <cohort/net/control_graph.h>

#include <algorithm>
#include <utility>

namespace cohort {

ControlRelay::ControlRelay(const Membership& membership) : membership_(membership) {
  if (!membership.is_sparse()) return;
  around_ = ControlGraph::around(membership.rank, membership.size);
  last_.resize(membership.size);
  has_said_hello_.resize(membership.size);
  has_revoked_.resize(membership.size);
  tree_neighbours_ = ControlGraph::children_of(membership.rank, membership.size);
  if (const auto parent = ControlGraph::parent_of(membership.rank)) tree_neighbours_.push_back(*parent);
}

ControlMessage ControlRelay::sign(ControlMessage message, std::uint32_t to) noexcept {
  message.origin = membership_.rank;
  message.to = to;
  message.number = ++number_;
  return message;
}

bool ControlRelay::is_sound(const ControlMessage& message) const noexcept {
  const bool is_receiver = message.to == ControlMessage::kNobody || message.to < membership_.size;
  return membership_.is_sparse() && message.origin < membership_.size && is_receiver && message.group == 0;
}

bool ControlRelay::is_news(const ControlMessage& message) noexcept {
  if (message.origin == membership_.rank) return false;
  if (is_hello_of_tree(message)) return true;  // a tree has one way
  if (message.type == ControlMessage::Type::hello || message.type == ControlMessage::Type::revoke) {
    auto& said = message.type == ControlMessage::Type::hello ? has_said_hello_ : has_revoked_;
    const bool is_known = said[message.origin];
    said[message.origin] = true;
    return !is_known;
  }
  if (message.number <= last_[message.origin]) return false;
  last_[message.origin] = message.number;
  return true;
}

std::span<const Rank> ControlRelay::ways(const ControlMessage& message) const noexcept {
  return is_hello_of_tree(message) ? tree_neighbours_ : around_;
}

void ControlRelay::add_way(Rank to) {
  if (std::ranges::find(around_, to) == around_.end()) around_.push_back(to);
}

}  // namespace cohort
