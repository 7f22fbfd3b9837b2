// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/grouping.h>

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/collective.h>
#include <cohort/collectives/core/communicator_core.h>
#include <cohort/collectives/schedules/operators/all_gather.h>
#include <cohort/engine/failure.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

/// `world_ranks`: by rank in `of`, which rank it is in the communicator that was joined.
Error named_in(const CommunicatorCore& parent, const Error& error, std::string_view of,
               std::span<const Rank> world_ranks) {
  const std::string& name = parent.membership().name;
  if (!error.culprit() || *error.culprit() >= world_ranks.size() || of == name) return error;
  const Rank culprit = *error.culprit();
  for (Rank rank = 0; rank < parent.membership().size; ++rank)
    if (parent.world_rank(rank) == world_ranks[culprit])
      return Error(error.kind(), fmt::format("{} (rank {} of '{}' is rank {} of '{}')", error.message(),
                                             culprit, of, rank, name))
          .with_culprit(rank);
  return Error(error.kind(),
               fmt::format("{} (rank {} of '{}' is none of '{}')", error.message(), culprit, of, name));
}

std::vector<Rank> world_ranks_of(const CommunicatorCore& core) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < core.membership().size; ++rank) ranks.push_back(core.world_rank(rank));
  return ranks;
}

void check_name(const CommunicatorCore& parent, std::string_view name) {
  const auto is_letter = [](char letter) { return letter > ' ' && letter <= '~' && letter != '/'; };
  const bool is_good = !name.empty() && std::ranges::all_of(name, is_letter) &&
                       name_in(parent, name).size() <= GroupTable::kMostName;
  if (!is_good)
    refuse_call(
        fmt::format("group '{}' of '{}': a name is made of printable ASCII without blanks and '/', and has "
                    "at most {} characters with those of the communicators around it",
                    name, parent.membership().name, GroupTable::kMostName));
}

void check_ranks(const CommunicatorCore& parent, std::span<const Rank> ranks, std::string_view name) {
  const Membership& membership = parent.membership();
  std::vector<bool> is_named(membership.size, false);
  for (const Rank rank : ranks) {
    if (rank >= membership.size)
      refuse_call(fmt::format("group '{}' of '{}' names rank {}, but the ranks are 0 to {}", name,
                              membership.name, rank, membership.size - 1));
    if (is_named[rank])
      refuse_call(fmt::format("group '{}' of '{}' names rank {} twice", name, membership.name, rank));
    is_named[rank] = true;
  }
  if (!is_named[membership.rank])
    refuse_call(
        fmt::format("group '{}' of '{}' is made by rank {}, which is not among its ranks; only members call "
                    "group()",
                    name, membership.name, membership.rank));
}

}  // namespace

std::string name_in(const CommunicatorCore& parent, std::string_view name) {
  return fmt::format("{}/{}", parent.membership().name, name);
}

Task<std::shared_ptr<CommunicatorCore>> make_group(std::shared_ptr<CommunicatorCore> parent,
                                                   std::vector<Rank> ranks, std::string name) {
  check_name(*parent, name);
  check_ranks(*parent, ranks, name);
  if (parent->is_closed()) refuse_call(fmt::format("communicator '{}' is closed", parent->membership().name));
  GroupTable::Plan plan;
  plan.name = name_in(*parent, name);
  for (const Rank rank : ranks) plan.ranks.push_back(parent->world_rank(rank));
  plan.buffer_bytes = parent->buffer_bytes();
  plan.timeout = parent->timeout();
  Job& job = parent->job();
  const std::shared_ptr<CommunicatorCore> root = job.root();
  const DataConnections::Making making(job.transports().connections(), plan.ranks);
  GroupTable::Group* group = nullptr;
  std::shared_ptr<CommunicatorCore> core;
  std::optional<Error> failure;
  try {
    GroupTable::Group* const made = co_await job.groups().make(plan);
    group = made;
    core = CommunicatorCore::create_group(root, *group);
  } catch (...) {
    failure = as_error(std::current_exception());
  }
  if (!failure) co_return core;
  if (group != nullptr) {
    failure = error_unless_out_of_memory([&] { return named_in(*root, *failure, plan.name, plan.ranks); });
    job.groups().give_up(*group, *failure);
  }
  const Error named = named_in(*parent, *failure, *root);
  co_await parent->job().group_was_given_up();
  throw Error(named);
}

Error named_in(const CommunicatorCore& parent, const Error& error, const CommunicatorCore& of) {
  return named_in(parent, error, of.membership().name, world_ranks_of(of));
}

Task<std::shared_ptr<CommunicatorCore>> split_group(std::shared_ptr<CommunicatorCore> parent, int color,
                                                    int key) {
  const Membership& membership = parent->membership();
  const std::uint64_t number = parent->next_split();
  const std::array<std::int32_t, 2> own = {color, key};
  std::vector<std::int32_t> all(own.size() * membership.size);
  CallArguments arguments{.type = DataType::int32};
  arguments.is_split = true;
  arguments.in = std::as_bytes(std::span(own));
  arguments.out = std::as_writable_bytes(std::span(all));
  Collective gathering(*parent, operator_of<AllGather>, arguments);
  co_await std::move(gathering);
  if (color < 0) co_return nullptr;
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < membership.size; ++rank)
    if (all[rank * own.size()] == color) ranks.push_back(rank);
  std::ranges::stable_sort(ranks, {}, [&](Rank rank) { return all[rank * own.size() + 1]; });
  std::string name = fmt::format("split{}.{}", number, color);
  co_return co_await make_group(std::move(parent), std::move(ranks), std::move(name));
}

}  // namespace cohort
