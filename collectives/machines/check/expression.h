// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/stage/case_memory.h>
#include <cohort/net/rank.h>
#include <cohort/net/slice.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cohort::check {

/// Two numbers as one that hardly any other two have. The order of the two matters.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6U) + (a >> 2U))) * 0xff51afd7ed558ccdULL;
  x ^= x >> 33U;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 29U;
}

using ExpressionId = std::uint32_t;

/// [first, end).
struct RankRange {
  Rank first = 0;
  Rank end = 0;

  [[nodiscard]] bool includes(Rank rank) const noexcept { return first <= rank && rank < end; }
};

/// What an interval of memory holds, byte for byte: an expression over contributions. The byte at place x of
/// the interval is the expression's byte x + shift.
struct Value {
  ExpressionId what = 0;
  std::int64_t shift = 0;
  bool operator==(const Value&) const = default;
};

/// Why a value is not what it should be, and the task that made it so, if one alone did.
struct Objection {
  std::string text;
  std::optional<std::uint32_t> culprit;
};

/// The ordered expressions of one run, each kept once: equal numbers mean equal bits. The two operands of a
/// combination may stand in either order, for that gives the same bits; three may not. What one step combines
/// is another expression than what several do in the same order: those round small floats on the way.
class Expressions {
 public:
  /// `has_parts`: results may be combinations of some ranks' contributions.
  explicit Expressions(Rank ranks, bool has_parts = false);

  /// What was in a window before anybody wrote there: of no meaning.
  [[nodiscard]] ExpressionId leftover(WindowId window) const noexcept {
    return static_cast<ExpressionId>(window);
  }
  /// What the rank gave to that operation, from its first byte.
  ExpressionId contribution(std::uint32_t operation, Rank rank);
  /// Whether a step begins, or goes on with what it has combined so far, which was stored nowhere.
  enum class Step : std::uint8_t { begins, goes_on };
  /// left op right, where right's byte x + skew meets left's byte x.
  ExpressionId combine(ExpressionId left, ExpressionId right, std::int64_t skew, Step step = Step::begins);
  /// Divided by the number of contributions that it is to have.
  ExpressionId average(ExpressionId of, Step step = Step::begins);

  /// Whether it is exactly the contributions of these ranks to that operation, each once and at the same
  /// byte; averaged at the end or not at all.
  [[nodiscard]] bool is_whole(ExpressionId id, std::uint32_t operation, RankRange of, bool is_averaged) const;
  /// ((0 + 1) + 2) + ...: in the order of ranks, from the left.
  [[nodiscard]] bool is_in_rank_order(ExpressionId id) const;
  /// All in one step, averages as well.
  [[nodiscard]] bool is_at_once(ExpressionId id) const { return nodes_[id].is_at_once; }
  /// In words, what stands between it and is_whole(): "lacks the contribution of rank 3".
  [[nodiscard]] Objection objection(ExpressionId id, std::uint32_t operation, RankRange of,
                                    bool is_averaged) const;
  /// Whether `whole` has every contribution that `part` has.
  [[nodiscard]] bool includes(ExpressionId whole, ExpressionId part) const;
  [[nodiscard]] bool has(ExpressionId id, Rank rank) const {
    return (nodes_[id].ranks[rank / 64] >> rank % 64 & 1U) != 0;
  }
  /// Of the contributions in it; 0: it has none.
  [[nodiscard]] std::uint32_t operation_of(ExpressionId id) const { return nodes_[id].last_operation; }
  /// The lowest of these ranks whose contribution is missing; their end if none is.
  [[nodiscard]] Rank first_missing(ExpressionId id, RankRange of) const;
  /// Who makes the expressions that come now.
  void work_for(std::uint32_t task) noexcept { task_ = task; }
  /// The same number in every run for the same expression, and for no other one.
  [[nodiscard]] std::uint64_t fingerprint(ExpressionId id) const { return nodes_[id].fingerprint; }
  /// "((0 + 1) + 2)": ranks in their order of combination, cut short when it is long.
  [[nodiscard]] std::string text(ExpressionId id) const;
  /// The window whose leftovers it is made of, if it is.
  [[nodiscard]] std::optional<WindowId> leftover_in(ExpressionId id) const;

 private:
  enum class Kind : std::uint8_t { leftover, contribution, combination, average };
  struct Node {
    Kind kind{};
    bool is_skewed = false;           ///< combines bytes of different places somewhere
    bool is_averaged_inside = false;  ///< combines an average further
    bool is_at_once = true;
    std::uint32_t first_operation = 0;  ///< of the contributions in it
    std::uint32_t last_operation = 0;
    std::uint32_t left = 0;  ///< also the rank, or the window
    std::uint32_t right = 0;
    std::uint32_t leaves = 0;
    std::uint32_t in_order = 0;  ///< it is ranks 0 to in_order - 1 in order; 0: it is not
    std::optional<Rank> doubled;
    std::optional<WindowId> leftover;
    std::uint64_t fingerprint = 0;
    std::uint32_t culprit = 0;  ///< the task that doubled, skewed, averaged or used leftovers first
    machine::CaseVector<std::uint64_t> ranks;  ///< a bit for each
  };
  struct Key {
    std::uint64_t operands;
    std::int64_t skew;
    Step step;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      return (key.operands * 0x9e3779b97f4a7c15ULL) ^
             (static_cast<std::uint64_t>(key.skew) * 0xff51afd7ed558ccdULL) ^
             static_cast<std::uint64_t>(key.step);
    }
  };

  ExpressionId add(Node node);
  [[nodiscard]] bool is_broken(const Node& node) const;
  [[nodiscard]] bool reads_first(ExpressionId id, ExpressionId other) const;
  void append_text(ExpressionId id, std::string& text) const;
  [[nodiscard]] std::string missing(ExpressionId id, RankRange of) const;
  [[nodiscard]] std::optional<Rank> first_foreign(ExpressionId id, RankRange of) const;

  const Rank ranks_;
  const bool has_parts_;
  std::uint32_t task_ = 0;
  machine::CaseVector<Node> nodes_;
  template <class Of, class Hashing = std::hash<Of>>
  using Known = std::unordered_map<Of, ExpressionId, Hashing, std::equal_to<Of>,
                                   machine::CaseAllocator<std::pair<const Of, ExpressionId>>>;
  Known<Key, Hash> combinations_;
  Known<std::uint64_t> contributions_;
  std::array<Known<ExpressionId>, 2> averages_;  ///< by Step
};

}  // namespace cohort::check
