// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/signature.h>

#include <cohort/collectives/call/counts_digest.h>
#include <cohort/collectives/schedules/operators/all_gather.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>

namespace cohort {
namespace {

// Layout of Signature::what, from the low end: operator, type, reduction (8 bits each), algorithm (16), root
// (24). A type takes the low 5 bits of its byte.
constexpr unsigned kTypeShift = 8;
constexpr unsigned kReduceShift = 16;
constexpr unsigned kAlgorithmShift = 24;
constexpr unsigned kRootShift = 40;
/// The count is a ListDigest. In the type's byte, whose other numbers are fewer.
constexpr std::uint64_t kIsListOfTensors = std::uint64_t{0x80} << kTypeShift;
/// What is promised of the bits, of calls to which it makes a difference: those are cut alike.
constexpr unsigned kDeterminismShift = kTypeShift + 5;
constexpr std::uint64_t kDeterminisms = 4;
static_assert(kDataTypeCount <= 32);
/// A function of the program's, whose element's digest stands above the count. In place of a reduction.
constexpr std::uint64_t kIsFunction = 0x80;

// Of Signature::count: above what any memory can hold stands what a reduction has besides its name.
constexpr unsigned kDigestShift = 48;
constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kDigestShift) - 1;

/// Differs between factors, but for one pair in 65536.
std::uint64_t digest_of(double factor) {
  const std::uint64_t mixed = std::bit_cast<std::uint64_t>(factor) * 0x9e3779b97f4a7c15U;
  return mixed >> kDigestShift;
}

std::uint64_t count_in(const Signature& signature) { return signature.count & kCountMask; }

constexpr std::uint64_t byte_at(std::uint64_t word, unsigned shift) { return (word >> shift) & 0xff; }

constexpr bool is_function(const Signature& signature) {
  return byte_at(signature.what, kReduceShift) == kIsFunction;
}

constexpr AlgorithmId algorithm_in(const Signature& signature) {
  return static_cast<AlgorithmId>(signature.what >> kAlgorithmShift);
}

// A peer's bytes: a number that no enumerator has is shown as it is.
template <class Enum>
std::string name_of(std::uint64_t value, std::uint64_t count) {
  if (value >= count) return fmt::format("#{}", value);
  return std::string(to_string(static_cast<Enum>(value)));
}

std::string type_name(const Signature& signature) {
  if (is_function(signature)) return "one of the program's";
  return name_of<DataType>(byte_at(signature.what, kTypeShift) & 0x1f, kDataTypeCount);
}

std::string determinism_name(const Signature& signature) {
  return name_of<Determinism>(signature.what >> kDeterminismShift & (kDeterminisms - 1), kDeterminisms);
}

std::string reduction_name(const Signature& signature) {
  if (is_function(signature))
    return fmt::format("a function on elements of digest {:04x}", signature.count >> kDigestShift);
  return name_of<ReduceOp>(byte_at(signature.what, kReduceShift), std::size(kReduceOps));
}

bool is_list(const Signature& signature) { return (signature.what & kIsListOfTensors) != 0; }

ListDigest digest_in(const Signature& signature) { return ListDigest::of_bits(count_in(signature)); }

std::string text_of_tensors(const Signature& signature) {
  if (!is_list(signature)) return "one buffer, in no list";
  const std::size_t size = digest_in(signature).size();
  return fmt::format("a list of {}{}", size, size == ListDigest::kMostNamed ? " or more" : "");
}

/// In place of a digest: each rank has counts of its own, which they are about to tell each other.
constexpr std::uint64_t kOwnCounts = 0;

bool has_own_counts(const Signature& signature) {
  const std::uint64_t index = byte_at(signature.what, 0);
  return index < kOperators && Operator::at(index)->counts == Counts::pairs &&
         count_in(signature) == kOwnCounts;
}

bool is_split(const Signature& signature) {
  return byte_at(signature.what, 0) == operator_of<AllGather>.index() &&
         signature.what >> kRootShift == Call::kSplit;
}

std::string operator_name(const Signature& signature) {
  const std::uint64_t index = byte_at(signature.what, 0);
  if (is_split(signature)) return "split";
  if (has_own_counts(signature)) return std::string(kOperatorWithOwnCounts);
  return index < kOperators ? std::string(to_string(Operator::at(index))) : fmt::format("#{}", index);
}

/// What stands for counts that differ: the same for those that are given and those that the buffers mean.
std::uint64_t digest_of_counts(const Call& call, Rank ranks) noexcept {
  if (call.has_own_counts()) return kOwnCounts;
  CountsDigest digest;
  const std::size_t size = how_many(call.op->counts, ranks);
  for (std::size_t i = 0; i < size; ++i) digest.add(call.counts.empty() ? call.count : call.counts[i]);
  return digest.bits();
}

bool has_counts_digest(const Signature& signature) {
  const std::uint64_t index = byte_at(signature.what, 0);
  return index < kOperators && Operator::at(index)->counts != Counts::one && !has_own_counts(signature);
}

std::string text_of_count(const Signature& signature) {
  const std::uint64_t count = count_in(signature);
  if (has_own_counts(signature)) return "lists of each rank's own";
  return has_counts_digest(signature) ? fmt::format("a list with the digest {:012x}", count)
                                      : fmt::format("{}", count);
}

constexpr std::string_view kDataType = "data type";
constexpr std::string_view kSizesOfTensors = "size of several tensors";
constexpr std::string_view kCount = "count";

struct Field {
  std::string_view name;
  std::string (*value)(const Signature&, const AlgorithmTable&);
};

const std::array kFields = {
    Field{"operator", [](const Signature& s, const AlgorithmTable&) { return operator_name(s); }},
    Field{kDataType, [](const Signature& s, const AlgorithmTable&) { return type_name(s); }},
    Field{"reduction", [](const Signature& s, const AlgorithmTable&) { return reduction_name(s); }},
    Field{"determinism", [](const Signature& s, const AlgorithmTable&) { return determinism_name(s); }},
    Field{"root",
          [](const Signature& s, const AlgorithmTable&) { return fmt::format("{}", s.what >> kRootShift); }},
    Field{"number of tensors", [](const Signature& s, const AlgorithmTable&) { return text_of_tensors(s); }},
    Field{kSizesOfTensors,
          [](const Signature& s, const AlgorithmTable&) {
            return is_list(s) ? fmt::format("sizes with the digest {:012x}", count_in(s)) : std::string();
          }},
    Field{kCount,
          [](const Signature& s, const AlgorithmTable&) { return is_list(s) ? "" : text_of_count(s); }},
    Field{"size of a large tensor",
          [](const Signature& s, const AlgorithmTable&) {
            const bool has_factor =
                byte_at(s.what, kReduceShift) == static_cast<std::uint64_t>(ReduceOp::scaled_sum);
            if (!is_list(s) || has_factor) return std::string();
            return fmt::format("{} x {} elements and some", s.count >> kDigestShift, ListDigest::kModulus);
          }},
    Field{"factor",
          [](const Signature& s, const AlgorithmTable&) {
            return fmt::format("one of digest {:04x}", s.count >> kDigestShift);
          }},
    Field{"algorithm",
          [](const Signature& s, const AlgorithmTable& table) { return table.name_of(algorithm_in(s)); }},
};

struct Holder {
  std::string value;
  std::vector<Rank> ranks;
};

/// Who has which value of a field, most ranks first, then lowest rank.
std::vector<Holder> holders_of(const Field& field, const std::vector<SignatureOfRank>& signatures,
                               const AlgorithmTable& algorithms) {
  std::vector<Holder> holders;
  for (const SignatureOfRank& entry : signatures) {
    const std::string value = field.value(entry.signature, algorithms);
    const auto same =
        std::find_if(holders.begin(), holders.end(), [&](const Holder& h) { return h.value == value; });
    if (same != holders.end())
      same->ranks.push_back(entry.rank);
    else
      holders.push_back({value, {entry.rank}});
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Holder& a, const Holder& b) { return a.ranks.size() > b.ranks.size(); });
  return holders;
}

const Signature& signature_of(Rank rank, const std::vector<SignatureOfRank>& signatures) {
  const auto entry = std::find_if(signatures.begin(), signatures.end(),
                                  [&](const SignatureOfRank& s) { return s.rank == rank; });
  return entry->signature;
}

/// Of tensors: the one that differs between the odd ones out and most ranks, where it is one.
std::string name_of_sizes(const Signature& odd, const Signature& most) {
  const std::optional<std::size_t> tensor = digest_in(odd).differing_from(digest_in(most));
  return tensor ? fmt::format("size of tensor {}", *tensor) : std::string(kSizesOfTensors);
}

/// The same of counts.
std::string name_of_counts(const Signature& odd, const Signature& most, Rank ranks) {
  if (!has_counts_digest(odd) || !has_counts_digest(most)) return std::string(kCount);
  const Counts counts = Operator::at(byte_at(odd.what, 0))->counts;
  const std::optional<std::size_t> place =
      CountsDigest::of_bits(count_in(odd))
          .differing_from(CountsDigest::of_bits(count_in(most)), how_many(counts, ranks));
  if (!place) return "more than one of the counts";
  if (counts == Counts::ranks) return fmt::format("the count of rank {}", *place);
  return fmt::format("the count of what rank {} gives to rank {}", *place / ranks, *place % ranks);
}

std::string name_of_field(const Field& field, const std::vector<Holder>& holders,
                          const std::vector<SignatureOfRank>& signatures, Rank ranks) {
  const Signature& odd = signature_of(holders.front().ranks.front(), signatures);
  const Signature& most = signature_of(holders.back().ranks.front(), signatures);
  if (field.name == kSizesOfTensors) return name_of_sizes(odd, most);
  return field.name == kCount ? name_of_counts(odd, most, ranks) : std::string(field.name);
}

std::string who_has(const Holder& holder) {
  const bool one = holder.ranks.size() == 1;
  return fmt::format("{} {} {} {}", one ? "rank" : "ranks", fmt::join(holder.ranks, ", "),
                     one ? "has" : "have", holder.value);
}

}  // namespace

Signature sign(const Call& call, Rank ranks) noexcept {
  const bool is_scaled = call.reduce == ReduceOp::scaled_sum;
  const std::uint64_t count = call.op->counts == Counts::one ? call.count : digest_of_counts(call, ranks);
  const AlgorithmId algorithm = call.algorithm == nullptr ? AlgorithmId{} : call.algorithm->id();
  return {.what = static_cast<std::uint64_t>(call.op.index()) |
                  static_cast<std::uint64_t>(call.type) << kTypeShift |
                  static_cast<std::uint64_t>(call.determinism) << kDeterminismShift |
                  static_cast<std::uint64_t>(call.reduce) << kReduceShift |
                  static_cast<std::uint64_t>(algorithm) << kAlgorithmShift |
                  static_cast<std::uint64_t>(call.root) << kRootShift,
          .count = count | (is_scaled ? digest_of(call.factor) << kDigestShift : 0)};
}

Signature sign_function(const Call& whole, Rank ranks, const ElementFunction& function) noexcept {
  Call of_bytes = whole;
  of_bytes.type = DataType::byte;
  of_bytes.count = whole.count / function.element_bytes;
  Signature signature = sign(of_bytes, ranks);
  signature.what = (signature.what & ~(std::uint64_t{0xff} << kReduceShift)) | kIsFunction << kReduceShift;
  const std::uint64_t type = algorithm_id(function.type_name());
  const std::uint64_t digest = (type ^ function.element_bytes) & 0xffff;
  signature.count = (signature.count & kCountMask) | digest << kDigestShift;
  return signature;
}

Signature with_algorithm(const Signature& signature, AlgorithmId id) noexcept {
  constexpr std::uint64_t kMask = std::uint64_t{std::numeric_limits<AlgorithmId>::max()} << kAlgorithmShift;
  return {.what = (signature.what & ~kMask) | static_cast<std::uint64_t>(id) << kAlgorithmShift,
          .count = signature.count};
}

Signature sign_tensors(const Call& first, Rank ranks, const ListDigest& digest) noexcept {
  Signature signature = sign(first, ranks);
  signature.what |= kIsListOfTensors;
  const std::uint64_t large = (first.count / ListDigest::kModulus & 0xffff) << kDigestShift;
  signature.count = ((signature.count & ~kCountMask) ^ large) | digest.bits();
  return signature;
}

std::string describe(const Signature& signature) {
  const std::uint64_t index = byte_at(signature.what, 0);
  std::string name = operator_name(signature);
  if (index >= kOperators || !Operator::at(index)->has_data || is_split(signature)) return name;
  const Operator op = Operator::at(index);
  std::string text = name + "(";
  if (!is_function(signature)) text += type_name(signature) + (op->combines ? " " : "");
  if (op->combines) text += reduction_name(signature);
  if (op->has_root) text += fmt::format(", root {}", signature.what >> kRootShift);
  if (is_list(signature)) return text + fmt::format(", {} tensors)", digest_in(signature).size());
  return text + fmt::format(", count {})", text_of_count(signature));
}

Disagreement judge(const std::vector<SignatureOfRank>& signatures, const AlgorithmTable& algorithms,
                   Rank ranks) {
  for (const Field& field : kFields) {
    std::vector<Holder> holders = holders_of(field, signatures, algorithms);
    if (holders.size() < 2) continue;
    const Rank culprit = holders[1].ranks.front();
    const bool is_tie = holders[0].ranks.size() == holders[1].ranks.size();
    const std::optional<Rank> opponent = is_tie ? std::optional(holders[0].ranks.front()) : std::nullopt;
    std::rotate(holders.begin(), holders.begin() + 1, holders.end());  // the odd ones out first
    std::string text = fmt::format("{} differs: ", name_of_field(field, holders, signatures, ranks));
    for (std::size_t i = 0; i < holders.size(); ++i) text += (i == 0 ? "" : ", ") + who_has(holders[i]);
    const bool has_bytes = std::ranges::any_of(
        holders, [](const Holder& holder) { return holder.value == to_string(DataType::byte); });
    return {.culprit = culprit,
            .opponent = opponent,
            .is_of_bytes = field.name == kDataType && has_bytes,
            .text = text};
  }
  return {.culprit = signatures.empty() ? 0 : signatures.front().rank,
          .opponent = std::nullopt,
          .text = "the ranks disagree"};
}

}  // namespace cohort
