// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/operators/operator.h>

#include <cohort/engine/assert.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

template <class... Op>
constexpr std::array<Operator, sizeof...(Op)> list_all(OperatorList<Op...>) {
  return {operator_of<Op>...};
}

constexpr auto kAll = list_all(Operators{});

/// What a rank gets by definition of the operator; nothing where only the root gets something.
Result result_of(Operator op, const Form& form, Rank rank) {
  return op->extent(form, rank).recv == 0 ? Result() : op->result(form, rank);
}

/// Whether both do the same where counts are alike.
bool are_alike(Operator one, Operator other) {
  if (one->combines != other->combines || one->has_root != other->has_root) return false;
  const Form form{.count = 1, .ranks = 3};
  for (Rank rank = 0; rank < form.ranks; ++rank) {
    const Extent mine = one->extent(form, rank);
    const Extent theirs = other->extent(form, rank);
    if (mine.send != theirs.send || mine.recv != theirs.recv) return false;
    if (result_of(one, form, rank) != result_of(other, form, rank)) return false;
  }
  return true;
}

Operator without_counts(Operator op) {
  if (op->counts == Counts::one) return op;
  const auto found = std::ranges::find_if(
      kAll, [op](Operator plain) { return plain->counts == Counts::one && are_alike(op, plain); });
  return found == kAll.end() ? op : *found;
}

/// Whether two ranks get the same part of a third one's input.
bool gives_to_two(Operator op) {
  const Form form{.count = 1, .ranks = 3};
  const Result first = result_of(op, form, 1);
  const Result second = result_of(op, form, 2);
  const auto is_in_second = [&second](const ResultPart& part) {
    return std::ranges::any_of(second, [&part](const ResultPart& other) {
      return part.first == 0 && other.first == 0 && part.from == other.from;
    });
  };
  return std::ranges::any_of(first, is_in_second);
}

/// What `question` says of each operator, by index.
template <class Answer>
std::array<Answer, kOperators> for_all(Answer (*question)(Operator)) {
  std::array<Answer, kOperators> answers{};
  std::ranges::transform(kAll, answers.begin(), question);
  return answers;
}

}  // namespace

Operator Operator::at(std::size_t index) noexcept {
  COHORT_ASSERT(index < kOperators, "operator {} of {}", index, kOperators);
  return kAll[index];
}

std::size_t Operator::elements_per_count(Rank ranks) const noexcept {
  const Extent extent = info().extent({.count = 1, .ranks = ranks}, 0);
  return std::max(extent.send, extent.recv);
}

Operator Operator::with_one_count() const noexcept {
  static const auto answers = for_all(without_counts);
  return answers[index_];
}

bool Operator::gives_to_all() const noexcept {
  static const auto answers = for_all(gives_to_two);
  return answers[index_];
}

std::span<const Operator> all_operators() noexcept { return kAll; }

std::string_view to_string(Operator op) noexcept { return op->name; }

std::optional<Operator> parse_operator(std::string_view text) noexcept {
  const auto found = std::find_if(kAll.begin(), kAll.end(), [&](Operator op) { return op->name == text; });
  if (found == kAll.end()) return std::nullopt;
  return *found;
}

}  // namespace cohort
