// SPDX-License-Identifier: Apache-2.0
// MPI_Group_...: sets of ranks, which no other rank hears of.
#include <cohort/bindings/mpi/comm.h>
#include <cohort_mpi/calls.h>

#include <algorithm>
#include <array>
#include <span>

namespace cohort::mpi {
namespace {

Handles<const Group>& made_groups() {
  static auto& all = *new Handles<const Group>(abi::kMadeGroup, "group", abi::kErrGroup);
  return all;
}

MPI_Group add(Group group) {
  return group.empty() ? abi::kGroupEmpty
                       : made_groups().add(std::make_shared<const Group>(std::move(group)));
}

bool has(const Group& group, Rank rank) { return std::ranges::find(group, rank) != group.end(); }

/// Those of the first that the second has, or has not.
Group select(const Group& from, const Group& by, bool has_it) {
  Group selected;
  std::ranges::copy_if(from, std::back_inserter(selected),
                       [&](Rank rank) { return has(by, rank) == has_it; });
  return selected;
}

/// Throws Failure for a number that is none of the group's.
std::size_t place_in(const Group& group, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= group.size())
    fail(abi::kErrRank, fmt::format("rank {} of a group of {}", rank, group.size()));
  return static_cast<std::size_t>(rank);
}

Group pick(const Group& from, std::span<const int> ranks) {
  Group picked;
  for (const int rank : ranks) picked.push_back(from[place_in(from, rank)]);
  return picked;
}

std::span<const int> span_of(const int* first, int count) {
  if (count < 0) fail(abi::kErrArg, fmt::format("a count of {}", count));
  return {first, static_cast<std::size_t>(count)};
}

/// Of triples of a first rank, a last one and a step.
std::vector<int> spread(int count, const int ranges[][3]) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) {
    const auto [first, last, step] = std::array{ranges[i][0], ranges[i][1], ranges[i][2]};
    if (step == 0) fail(abi::kErrArg, fmt::format("range {} has the step 0", i));
    for (int rank = first; step > 0 ? rank <= last : rank >= last; rank += step) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

std::shared_ptr<const Group> group_of(MPI_Group handle) {
  static const auto empty = std::make_shared<const Group>();
  if (handle == abi::kGroupEmpty) return empty;
  if (handle == abi::kGroupNull) fail(abi::kErrGroup, "the group is MPI_GROUP_NULL; give one");
  return made_groups().at(handle);
}

void comm_group(MPI_Comm comm, MPI_Group* group) { *group = add(comm_of(comm)->shared->world_ranks()); }

void group_size(MPI_Group group, int* size) { *size = static_cast<int>(group_of(group)->size()); }

void group_rank(MPI_Group group, int* rank) {
  const std::shared_ptr<const Group> of = group_of(group);
  const auto own = std::ranges::find(*of, Process::get().world()->shared->rank());
  *rank = own == of->end() ? abi::kUndefined : static_cast<int>(own - of->begin());
}

void group_translate_ranks(MPI_Group from, int count, const int* ranks, MPI_Group to, int* there) {
  const std::shared_ptr<const Group> first = group_of(from);
  const std::shared_ptr<const Group> second = group_of(to);
  for (const int rank : span_of(ranks, count)) {
    int translated = abi::kProcNull;
    if (rank != abi::kProcNull) {
      const auto found = std::ranges::find(*second, (*first)[place_in(*first, rank)]);
      translated = found == second->end() ? abi::kUndefined : static_cast<int>(found - second->begin());
    }
    *there++ = translated;
  }
}

void group_compare(MPI_Group first, MPI_Group second, int* result) {
  const std::shared_ptr<const Group> a = group_of(first);
  const std::shared_ptr<const Group> b = group_of(second);
  if (*a == *b)
    *result = abi::kIdent;
  else
    *result = std::ranges::is_permutation(*a, *b) ? abi::kSimilar : abi::kUnequal;
}

void group_union(MPI_Group first, MPI_Group second, MPI_Group* made) {
  Group all = *group_of(first);
  std::ranges::copy(select(*group_of(second), all, false), std::back_inserter(all));
  *made = add(std::move(all));
}
void group_intersection(MPI_Group first, MPI_Group second, MPI_Group* made) {
  *made = add(select(*group_of(first), *group_of(second), true));
}
void group_difference(MPI_Group first, MPI_Group second, MPI_Group* made) {
  *made = add(select(*group_of(first), *group_of(second), false));
}
void group_incl(MPI_Group group, int count, const int* ranks, MPI_Group* made) {
  *made = add(pick(*group_of(group), span_of(ranks, count)));
}
void group_excl(MPI_Group group, int count, const int* ranks, MPI_Group* made) {
  const std::shared_ptr<const Group> of = group_of(group);
  *made = add(select(*of, pick(*of, span_of(ranks, count)), false));
}
void group_range_incl(MPI_Group group, int count, int ranges[][3], MPI_Group* made) {
  *made = add(pick(*group_of(group), spread(count, ranges)));
}
void group_range_excl(MPI_Group group, int count, int ranges[][3], MPI_Group* made) {
  const std::shared_ptr<const Group> of = group_of(group);
  *made = add(select(*of, pick(*of, spread(count, ranges)), false));
}

void group_free(MPI_Group* group) {
  if (*group != abi::kGroupEmpty) made_groups().remove(*group);
  *group = abi::kGroupNull;
}

}  // namespace cohort::mpi
