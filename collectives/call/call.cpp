// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/call.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

// Layout of Signature::what, from the low end: operator, type, reduction, algorithm (8 bits each), root (32
// bits).
constexpr unsigned kTypeShift = 8;
constexpr unsigned kReduceShift = 16;
constexpr unsigned kAlgorithmShift = 24;
constexpr unsigned kRootShift = 32;

constexpr std::uint64_t byte_at(std::uint64_t word, unsigned shift) { return (word >> shift) & 0xff; }

bool reduces(std::uint64_t op) {
  return op == static_cast<std::uint64_t>(Operator::all_reduce) ||
         op == static_cast<std::uint64_t>(Operator::reduce_scatter);
}

// A peer's bytes: a number that no enumerator has is shown as it is.
template <class Enum>
std::string name_of(std::uint64_t value, std::uint64_t count) {
  if (value >= count) return fmt::format("#{}", value);
  return std::string(to_string(static_cast<Enum>(value)));
}

struct Field {
  const char* name;
  std::string (*value)(const Signature&);
};

const std::array kFields = {
    Field{"operator", [](const Signature& s) { return name_of<Operator>(byte_at(s.what, 0), kOperators); }},
    Field{"data type",
          [](const Signature& s) {
            return name_of<DataType>(byte_at(s.what, kTypeShift), std::size(kDataTypes));
          }},
    Field{"reduction",
          [](const Signature& s) {
            return name_of<ReduceOp>(byte_at(s.what, kReduceShift), std::size(kReduceOps));
          }},
    Field{"root", [](const Signature& s) { return fmt::format("{}", s.what >> kRootShift); }},
    Field{"count", [](const Signature& s) { return fmt::format("{}", s.count); }},
    Field{"algorithm",
          [](const Signature& s) {
            return name_of<AlgorithmId>(byte_at(s.what, kAlgorithmShift), kAlgorithms);
          }},
};

struct Holder {
  std::string value;
  std::vector<Rank> ranks;
};

/// Who has which value of a field, most ranks first, then lowest rank.
std::vector<Holder> holders_of(const Field& field, const std::vector<SignatureOfRank>& table) {
  std::vector<Holder> holders;
  for (const SignatureOfRank& entry : table) {
    const std::string value = field.value(entry.signature);
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

std::string who_has(const Holder& holder) {
  const bool one = holder.ranks.size() == 1;
  return fmt::format("{} {} {} {}", one ? "rank" : "ranks", fmt::join(holder.ranks, ", "),
                     one ? "has" : "have", holder.value);
}

}  // namespace

std::size_t Call::message_bytes() const noexcept {
  switch (op) {
    case Operator::barrier: return 0;
    case Operator::reduce_scatter: return recv_bytes;
    default: return count * size_bytes(type);
  }
}

Signature sign(const Call& call) noexcept {
  return {.what = static_cast<std::uint64_t>(call.op) | static_cast<std::uint64_t>(call.type) << kTypeShift |
                  static_cast<std::uint64_t>(call.reduce) << kReduceShift |
                  static_cast<std::uint64_t>(call.algorithm) << kAlgorithmShift |
                  static_cast<std::uint64_t>(call.root) << kRootShift,
          .count = call.count};
}

std::string describe(const Signature& signature) {
  const std::uint64_t op = byte_at(signature.what, 0);
  std::string text = kFields[0].value(signature);
  if (op == static_cast<std::uint64_t>(Operator::barrier)) return text;
  text += fmt::format("({}", kFields[1].value(signature));
  if (reduces(op)) text += fmt::format(" {}", kFields[2].value(signature));
  if (op == static_cast<std::uint64_t>(Operator::broadcast))
    text += fmt::format(", root {}", kFields[3].value(signature));
  return text + fmt::format(", count {})", signature.count);
}

Disagreement judge(const std::vector<SignatureOfRank>& table) {
  for (const Field& field : kFields) {
    std::vector<Holder> holders = holders_of(field, table);
    if (holders.size() < 2) continue;
    const Rank culprit = holders[1].ranks.front();
    std::rotate(holders.begin(), holders.begin() + 1, holders.end());  // the odd ones out first
    std::string text = fmt::format("{} differs: ", field.name);
    for (std::size_t i = 0; i < holders.size(); ++i) text += (i == 0 ? "" : ", ") + who_has(holders[i]);
    return {culprit, text};
  }
  return {table.empty() ? 0 : table.front().rank, "the ranks disagree"};
}

}  // namespace cohort
