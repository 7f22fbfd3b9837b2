// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>
#include <cohort/net/rank.h>

#include <memory>
#include <string>
#include <vector>

namespace cohort {

class CommunicatorCore;

/// Makes a group of ranks of that communicator, in the order of their ranks there; called by its members
/// only. Its name is that of the communicator and `name`. Throws InvalidArgument for ranks that are none,
/// twice there or without this one and for names that are none, and what GroupTable::make() throws; culprits
/// are ranks of that communicator.
Task<std::shared_ptr<CommunicatorCore>> make_group(std::shared_ptr<CommunicatorCore> parent,
                                                   std::vector<Rank> ranks, std::string name);

/// The group of those ranks that give the same colour, ordered by key and then by rank; null for a negative
/// one. A collective: called by all ranks.
Task<std::shared_ptr<CommunicatorCore>> split_group(std::shared_ptr<CommunicatorCore> parent, int color,
                                                    int key);

/// What went wrong with the group, as callers need it who know the ranks of `parent`: where the culprit is
/// named by its rank in `of`, another communicator, it becomes that in `parent`, and the text says both.
[[nodiscard]] Error named_in(const CommunicatorCore& parent, const Error& error, const CommunicatorCore& of);

/// What a group's full name is: those of the communicator and of the group.
std::string name_in(const CommunicatorCore& parent, std::string_view name);

}  // namespace cohort
