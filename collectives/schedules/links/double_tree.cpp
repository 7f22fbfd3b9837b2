// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/double_tree.h>

#include <bit>
#include <limits>

namespace cohort {
namespace {

constexpr std::uint32_t kAnyNumber = std::numeric_limits<std::uint32_t>::max();

Rank lowest_bit(Rank place) { return place & (~place + 1); }

std::size_t first_half(std::size_t bytes) {
  constexpr std::size_t kLargestElement = 16;
  return std::min(bytes, ((bytes + 1) / 2 + kLargestElement - 1) / kLargestElement * kLargestElement);
}

}  // namespace

Rank DoubleTree::parent_place(Rank place) const noexcept {
  const Rank bit = lowest_bit(place);
  const bool is_left = (place & (2 * bit)) == 0 && place + bit <= last_;
  return is_left ? place + bit : place - bit;
}

Rank DoubleTree::left_place(Rank place) const noexcept {
  if (place == 0) return std::bit_floor(last_);
  const Rank bit = lowest_bit(place);
  return bit == 1 ? 0 : place - bit / 2;
}

Rank DoubleTree::right_place(Rank place) const noexcept {
  if (place == 0) return 0;
  for (Rank away = lowest_bit(place) / 2; away != 0; away /= 2)
    if (place + away <= last_) return place + away;
  return 0;
}

HalfTree::HalfTree(Exec& x, Rank root, bool is_second, Flow flow)
    : x_(x),
      flow_(flow),
      summed_(x.notify(kAnyNumber)),
      to_left_(x.notify(kAnyNumber)),
      to_right_(x.notify(kAnyNumber)) {
  const DoubleTree tree(x.size(), is_second);
  const Rank me = (x.rank() + x.size() - root) % x.size();
  const Lane lane = is_second ? 1 : 0;
  const auto link_to = [&](Rank from_root) { return &x.link((from_root + root) % x.size(), lane); };
  if (me != 0) parent_ = link_to(tree.parent(me));
  const Rank below[] = {tree.left(me), tree.right(me)};
  for (std::size_t i = 0; i < children_.size(); ++i)
    if (below[i] != 0) children_[i] = link_to(below[i]);
}

bool HalfTree::has(Role role) const noexcept {
  switch (role) {
    case Role::combine: return goes_up() && !is_leaf();
    case Role::send_up: return goes_up() && !is_root();
    case Role::take: return goes_down() && !is_root();
    case Role::send_left: return goes_down() && !is_leaf();
    case Role::send_right: return goes_down() && children_[1] != nullptr;
  }
  return false;
}

Task<> HalfTree::run(Role role) {
  switch (role) {
    case Role::combine: return combine_chunks();
    case Role::send_up:
      if (is_leaf()) post_chunks(half_, summed_);
      return pass_chunks(*parent_, half_, summed_);
    case Role::take:
      return take_chunks(*parent_, half_, is_leaf() ? nullptr : &to_left_,
                         children_[1] == nullptr ? nullptr : &to_right_);
    case Role::send_left:
      if (is_root() && !goes_up()) post_chunks(half_, to_left_);
      return pass_chunks(*children_[0], half_, to_left_);
    case Role::send_right: break;
  }
  return pass_chunks(*children_[1], half_, to_right_);
}

Task<> HalfTree::combine_chunks() {
  for (std::size_t k = 0; k < chunks(half_); ++k) {
    const Slice part = chunk(half_, k);
    for (Link* const child : children_)
      if (child != nullptr) co_await child->recv_reduce(part, reducer_);
    if (!is_root()) {
      summed_.post();
      continue;
    }
    co_await x_.finish_average(combine_, part);
    if (goes_down()) to_left_.post();
  }
}

Task<> HalfTree::tell_root() {
  for (Link* const child : children_)
    if (child != nullptr) co_await child->wait(Signal::Ack);
  if (!is_root()) co_await parent_->post(Signal::Ack);
}

Task<> HalfTree::tell_all() {
  if (!is_root()) co_await parent_->wait(Signal::DataSignal);
  for (Link* const child : children_)
    if (child != nullptr) co_await child->post(Signal::DataSignal);
}

Task<> DoubleTreeFlow::run() {
  const auto role = [](std::size_t index) { return static_cast<HalfTree::Role>(index % HalfTree::kRoles); };
  const auto is_needed = [&](std::size_t index) { return tree(index / HalfTree::kRoles).has(role(index)); };
  auto needed = std::views::iota(std::size_t{0}, 2 * HalfTree::kRoles) | std::views::filter(is_needed);
  auto run_one = [&](std::size_t index) { return tree(index / HalfTree::kRoles).run(role(index)); };
  co_await x_.streams().fork_join(needed, run_one);
}

Slice half_of(const Slice& whole, std::size_t which) noexcept {
  const std::size_t first = first_half(whole.bytes);
  return which == 0 ? whole.part(0, first) : whole.part(first, whole.bytes - first);
}

Needs needs_of_double_tree(std::size_t scratch_bytes) noexcept {
  return {.links_to_all = true, .scratch_bytes = scratch_bytes, .lanes = 2};
}

Cost cost_of_double_tree(std::size_t bytes, Rank ranks, HalfTree::Flow flow) {
  const Rank others = ranks - 1;
  const double n = static_cast<double>(bytes);
  const std::size_t first = first_half(bytes);
  const double half = static_cast<double>(first);
  const double height = std::bit_width(others);
  const double children = others >= 3 ? 2 : others - 1.0;  // of a rank that has most
  const bool is_both = flow == HalfTree::Flow::both;
  const double way = bytes_on_way(first, is_both ? 2 * height : height);
  // Who has children passes a half to each and, where sums go up first, both halves to its parents.
  const double by_one = children * half + (is_both ? n : 0);
  const double times = is_both ? 2 : 1;
  const double chunks = static_cast<double>(chunks_of(first) + chunks_of(bytes - first));
  return {.rounds = 2 * height,
          .bytes_moved = std::max({n, way, by_one}),
          .bytes_reduced = flow == HalfTree::Flow::down ? 0 : std::max(n, children * half),
          .messages = others * (times * chunks + (is_both ? 0 : 1)),
          .bytes_by_all = times * n * others};
}

}  // namespace cohort
