// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/list.h>

#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace cohort {

/// What is known of an operator, for whoever does not know which one it is: see description.h.
struct OperatorInfo {
  std::string_view name;
  bool has_data = true;          ///< false: it only orders, and has no type and no count
  bool has_root = false;         ///< one rank gives or gets all
  bool combines = false;         ///< takes a reduction
  bool has_one_buffer = false;   ///< input and output are one span: always in place
  Counts counts = Counts::one;   ///< tools that give none have all alike
  bool has_in_place = true;      ///< two buffers, which may also be one: see in_place()
  Flow flow = Flow::everywhere;  ///< who needs whom
  Extent (*extent)(const Form& form, Rank rank) = nullptr;
  InPlace (*in_place)(const Form& form, Rank rank) = nullptr;
  Result (*result)(const Form& form, Rank rank) = nullptr;
  /// What of its input that rank gives to nobody else; null: what one gets, others get as well.
  Stretch (*kept)(const Form& form, Rank rank) = nullptr;
  /// Of nccl-tests: what turns size over time into the bandwidth of the busiest link.
  double (*bus_factor)(Rank ranks) = nullptr;
  /// Elements that all ranks together have to get from others: no algorithm needs less.
  std::uint64_t (*least_traffic)(const Form& form) = nullptr;
};

namespace detail {
template <class Op>
constexpr auto kept_of() -> Stretch (*)(const Form&, Rank) {
  if constexpr (requires(const Form& form) { Op::kept(form, 0); })
    return Op::kept;
  else
    return nullptr;
}
template <class Op>
constexpr OperatorInfo describe() {
  return {.name = Op::kName,
          .has_data = Op::kHasData,
          .has_root = Op::kHasRoot,
          .combines = Op::kCombines,
          .has_one_buffer = Op::kHasOneBuffer,
          .counts = Op::kCounts,
          .has_in_place = Op::kHasInPlace,
          .flow = Op::kFlow,
          .extent = Op::extent,
          .in_place = Op::in_place,
          .result = Op::result,
          .kept = kept_of<Op>(),
          .bus_factor = Op::bus_factor,
          .least_traffic = Op::least_traffic};
}
template <class... Op>
constexpr std::array<OperatorInfo, sizeof...(Op)> describe_all(OperatorList<Op...>) {
  return {describe<Op>()...};
}
/// In the order of the list.
inline constexpr auto kOperatorInfos = describe_all(Operators{});
}  // namespace detail

/// One of the library's operators, known at run time only. A value.
class Operator {
 public:
  /// The first of the list: a barrier.
  constexpr Operator() = default;
  /// `index` in Operators; asserts that it is one.
  static Operator at(std::size_t index) noexcept;

  [[nodiscard]] constexpr std::uint8_t index() const noexcept { return index_; }
  [[nodiscard]] const OperatorInfo& info() const noexcept { return detail::kOperatorInfos[index_]; }
  const OperatorInfo* operator->() const noexcept { return &info(); }

  /// Elements of the largest buffer that a rank has, for a count of one: by this people's "size" is count.
  [[nodiscard]] std::size_t elements_per_count(Rank ranks) const noexcept;
  /// The same of what a rank gives: of the root where there is one.
  [[nodiscard]] std::size_t given_per_count(Rank ranks) const noexcept {
    return info().extent({.count = 1, .ranks = ranks}, 0).send;
  }

  /// The operator that does the same with as many elements for each rank; itself, where it has no counts.
  [[nodiscard]] Operator with_one_count() const noexcept;
  /// Whether what one rank gives goes to more than one other, where there are as many.
  [[nodiscard]] bool gives_to_all() const noexcept;
  /// Whether some rank gets nothing of some other: it may be done without it.
  [[nodiscard]] bool is_one_way() const noexcept { return info().flow != Flow::everywhere; }
  /// Whether what that rank gets depends on another one.
  [[nodiscard]] bool needs(Rank rank, Rank other, Rank root) const noexcept {
    switch (info().flow) {
      case Flow::everywhere: return true;
      case Flow::from_root: return other == root;
      case Flow::to_root: return rank == root;
      case Flow::upwards: return other < rank;
    }
    return true;
  }
  /// Whether others get something of what that rank gives, if it gives something.
  [[nodiscard]] bool gives_to_others(Rank rank, Rank ranks, Rank root) const noexcept {
    switch (info().flow) {
      case Flow::everywhere: return true;
      case Flow::from_root: return rank == root;
      case Flow::to_root: return rank != root;
      case Flow::upwards: return rank + 1 != ranks;
    }
    return true;
  }

  /// Whether that rank gives anything to others in a call of that form.
  [[nodiscard]] bool is_read(const Form& form, Rank of) const {
    return gives_to_others(of, form.ranks, form.root) && info().extent(form, of).send != 0;
  }

  constexpr auto operator<=>(const Operator&) const = default;

 private:
  template <class Op>
  friend constexpr Operator operator_of_type() noexcept;
  constexpr explicit Operator(std::uint8_t index) noexcept : index_(index) {}

  std::uint8_t index_ = 0;
};

template <class Op>
constexpr Operator operator_of_type() noexcept {
  return Operator(static_cast<std::uint8_t>(Operators::index_of<Op>()));
}
/// The run-time value of an operator's type.
template <class Op>
inline constexpr Operator operator_of = operator_of_type<Op>();

inline constexpr std::size_t kOperators = Operators::kSize;

/// All of them, in the order of the list.
[[nodiscard]] std::span<const Operator> all_operators() noexcept;
[[nodiscard]] std::string_view to_string(Operator op) noexcept;
[[nodiscard]] std::optional<Operator> parse_operator(std::string_view text) noexcept;

}  // namespace cohort
