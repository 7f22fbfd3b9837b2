// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/expression.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace cohort::check {
namespace {

constexpr std::size_t kLongestText = 60;
constexpr std::size_t kMostNames = 4;
constexpr unsigned kBits = 64;
/// In fingerprints; no skew is so large.
constexpr std::uint64_t kGoesOn = std::uint64_t{1} << 63;

}  // namespace

Expressions::Expressions(Rank ranks, bool has_parts) : ranks_(ranks), has_parts_(has_parts) {
  for (std::size_t window = 0; window < kWindows; ++window) {
    Node node;
    node.kind = Kind::leftover;
    node.leftover = static_cast<WindowId>(window);
    node.fingerprint = mixed(1, window);
    add(std::move(node));
  }
}

ExpressionId Expressions::add(Node node) {
  if (node.ranks.empty()) node.ranks.resize((ranks_ + kBits - 1) / kBits);
  nodes_.push_back(std::move(node));
  return static_cast<ExpressionId>(nodes_.size() - 1);
}

ExpressionId Expressions::contribution(std::uint32_t operation, Rank rank) {
  const auto [place, is_new] = contributions_.try_emplace(std::uint64_t{operation} << 32 | rank, 0);
  if (!is_new) return place->second;
  Node node;
  node.kind = Kind::contribution;
  node.first_operation = node.last_operation = operation;
  node.left = rank;
  node.leaves = 1;
  node.fingerprint = mixed(mixed(2, operation), rank);
  node.in_order = rank == 0 ? 1 : 0;
  node.ranks.resize((ranks_ + kBits - 1) / kBits);
  node.ranks[rank / kBits] = std::uint64_t{1} << rank % kBits;
  return place->second = add(std::move(node));
}

/// No further step can make it right; a mere window of leftovers is not yet somebody's mistake.
bool Expressions::is_broken(const Node& node) const {
  const bool is_divided_early = !has_parts_ && node.kind == Kind::average && node.leaves != ranks_;
  return node.doubled || (node.leftover && node.kind != Kind::leftover) || node.is_skewed ||
         node.is_averaged_inside || is_divided_early;
}

ExpressionId Expressions::combine(ExpressionId left, ExpressionId right, std::int64_t skew, Step step) {
  if (skew == 0 && step == Step::begins && right < left) std::swap(left, right);
  const auto [place, is_new] =
      combinations_.try_emplace(Key{std::uint64_t{left} << 32 | right, skew, step}, ExpressionId{0});
  if (!is_new) return place->second;
  const Node& a = nodes_[left];
  const Node& b = nodes_[right];
  Node node;
  node.kind = Kind::combination;
  node.is_skewed = skew != 0 || a.is_skewed || b.is_skewed;
  node.is_averaged_inside =
      a.is_averaged_inside || b.is_averaged_inside || a.kind == Kind::average || b.kind == Kind::average;
  node.first_operation = std::min(a.first_operation, b.first_operation);
  node.last_operation = std::max(a.last_operation, b.last_operation);
  node.left = left;
  node.right = right;
  node.leaves = a.leaves + b.leaves;
  const bool goes_on = step == Step::goes_on;
  node.is_at_once = (goes_on ? a.is_at_once : a.kind == Kind::contribution) && b.kind == Kind::contribution;
  const bool turns = skew == 0 && !goes_on && b.fingerprint < a.fingerprint;  // the same bits either way
  node.fingerprint =
      mixed(mixed(turns ? b.fingerprint : a.fingerprint, turns ? a.fingerprint : b.fingerprint),
            static_cast<std::uint64_t>(skew) + (goes_on ? kGoesOn : 0));
  node.doubled = a.doubled ? a.doubled : b.doubled;
  node.leftover = a.leftover ? a.leftover : b.leftover;
  for (std::size_t word = 0; word < a.ranks.size(); ++word) {
    const std::uint64_t both = a.ranks[word] & b.ranks[word];
    if (both != 0 && !node.doubled)
      node.doubled = static_cast<Rank>(word * kBits + static_cast<unsigned>(std::countr_zero(both)));
    node.ranks.push_back(a.ranks[word] | b.ranks[word]);
  }
  node.culprit = is_broken(a) ? a.culprit : is_broken(b) ? b.culprit : task_;
  const auto follows = [](const Node& chain, const Node& next) {
    return chain.in_order != 0 && next.kind == Kind::contribution && next.left == chain.in_order;
  };
  const bool is_in_order = !node.is_skewed && !node.doubled && (follows(a, b) || follows(b, a));
  if (is_in_order) node.in_order = node.leaves;
  return place->second = add(std::move(node));
}

ExpressionId Expressions::average(ExpressionId of, Step step) {
  const auto [place, is_new] = averages_[static_cast<std::size_t>(step)].try_emplace(of, 0);
  if (!is_new) return place->second;
  Node node = nodes_[of];
  if (!is_broken(node)) node.culprit = task_;
  node.is_averaged_inside = node.is_averaged_inside || node.kind == Kind::average;
  node.kind = Kind::average;
  node.left = of;
  node.is_at_once = node.is_at_once && step == Step::goes_on;
  node.fingerprint = mixed(step == Step::goes_on ? 4 : 3, node.fingerprint);
  return place->second = add(std::move(node));
}

bool Expressions::is_whole(ExpressionId id, std::uint32_t operation, RankRange of, bool is_averaged) const {
  const Node& node = nodes_[id];
  const bool has_all = node.leaves == of.end - of.first && first_missing(id, of) == of.end;
  return has_all && !node.doubled && !node.leftover && !node.is_skewed && !node.is_averaged_inside &&
         (node.kind == Kind::average) == is_averaged && node.first_operation == operation &&
         node.last_operation == operation;
}

bool Expressions::is_in_rank_order(ExpressionId id) const { return nodes_[id].in_order == nodes_[id].leaves; }

std::string Expressions::missing(ExpressionId id, RankRange of) const {
  std::string names;
  std::size_t count = 0;
  for (Rank rank = of.first; rank < of.end; ++rank) {
    if (has(id, rank)) continue;
    if (++count <= kMostNames) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  const char* const more = count > kMostNames ? ", ..." : "";
  return fmt::format("lacks the contribution{} of rank{} {}{}", count > 1 ? "s" : "", count > 1 ? "s" : "",
                     names, more);
}

bool Expressions::includes(ExpressionId whole, ExpressionId part) const {
  const machine::CaseVector<std::uint64_t>& all = nodes_[whole].ranks;
  const machine::CaseVector<std::uint64_t>& some = nodes_[part].ranks;
  for (std::size_t word = 0; word < some.size(); ++word)
    if ((some[word] & ~all[word]) != 0) return false;
  return true;
}

Rank Expressions::first_missing(ExpressionId id, RankRange of) const {
  Rank rank = of.first;
  while (rank < of.end && has(id, rank)) ++rank;
  return rank;
}

std::optional<Rank> Expressions::first_foreign(ExpressionId id, RankRange of) const {
  for (Rank rank = 0; rank < ranks_; ++rank)
    if (has(id, rank) && !of.includes(rank)) return rank;
  return std::nullopt;
}

Objection Expressions::objection(ExpressionId id, std::uint32_t operation, RankRange of,
                                 bool is_averaged) const {
  const Node& node = nodes_[id];
  if (node.kind == Kind::leftover)
    return {fmt::format("holds leftovers of {}", to_string(*node.leftover)), {}};
  if (node.leftover)
    return {fmt::format("holds a combination with leftovers of {}", to_string(*node.leftover)), node.culprit};
  if (node.first_operation != operation || node.last_operation != operation)
    return {"holds data of another operation", {}};
  if (node.doubled)
    return {fmt::format("has the contribution of rank {} twice: {}", *node.doubled, text(id)), node.culprit};
  if (first_missing(id, of) != of.end) return {fmt::format("{}: it is {}", missing(id, of), text(id)), {}};
  if (const std::optional<Rank> foreign = first_foreign(id, of))
    return {
        fmt::format("has the contribution of rank {}, which is no part of it: it is {}", *foreign, text(id)),
        {}};
  if (node.is_skewed) return {"combines bytes of different places", node.culprit};
  if (node.is_averaged_inside)
    return {"is divided before all contributions are in it, or twice", node.culprit};
  if (is_averaged && node.kind != Kind::average) return {"is the sum: nobody divided it for avg", {}};
  if (!is_averaged && node.kind == Kind::average) return {"is divided although nobody asked for avg", {}};
  return {};
}

/// The longer one, or else that of lower ranks: as people would write it.
bool Expressions::reads_first(ExpressionId id, ExpressionId other) const {
  const Node& a = nodes_[id];
  const Node& b = nodes_[other];
  if (a.leaves != b.leaves) return a.leaves > b.leaves;
  for (Rank rank = 0; rank < ranks_; ++rank)
    if (has(id, rank) != has(other, rank)) return has(id, rank);
  return true;
}

void Expressions::append_text(ExpressionId id, std::string& text) const {
  if (text.size() > kLongestText) return;
  const Node& node = nodes_[id];
  const bool is_left_first = node.kind != Kind::combination || reads_first(node.left, node.right);
  switch (node.kind) {
    case Kind::leftover: text += fmt::format("({})", to_string(*node.leftover)); return;
    case Kind::contribution: text += std::to_string(node.left); return;
    case Kind::average:
      text += "avg ";
      append_text(node.left, text);
      return;
    case Kind::combination:
      text += "(";
      append_text(is_left_first ? node.left : node.right, text);
      text += " + ";
      append_text(is_left_first ? node.right : node.left, text);
      text += ")";
      return;
  }
}

std::string Expressions::text(ExpressionId id) const {
  std::string text;
  append_text(id, text);
  if (text.size() <= kLongestText) return text;
  return text.substr(0, kLongestText) + "...";
}

std::optional<WindowId> Expressions::leftover_in(ExpressionId id) const { return nodes_[id].leftover; }

}  // namespace cohort::check
