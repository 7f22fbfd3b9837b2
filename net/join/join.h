// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/net/control_graph.h>
#include <cohort/net/join/join_options.h>
#include <cohort/net/membership.h>

#include <optional>

namespace cohort {

/// Meets the other ranks of a communicator: each learns who all the others are and has an authenticated
/// control connection to each of them, or, where they are many on many hosts, to its neighbours in the
/// ControlGraph: Membership::neighbours.
///
/// Rank 0 listens at the address, the others call there, in any order. Every connection proves both ways that
/// its ends know the job's secret, before anything is allocated for it; strangers are turned away and disturb
/// nobody. It returns on every rank when all connections of all ranks stand, or throws on every rank for one
/// cause.
///
/// Threads: the engine's. Lifetime: the engine outlives the membership. Nothing is left listening but
/// Membership::data_listener. Cost: a few round trips, and size * (size - 1) / 2 connections, or, of many
/// ranks on many hosts, size * ⌈log2 size⌉: then the table goes down a tree, so that rank 0 sends it ⌈log2
/// size⌉ times.
///
/// Errors, on all ranks that take part: WorldSize and DuplicateRank with both sides' claims, MissingRanks
/// with who is missing and who is there, PeerDied; at the ranks concerned: AuthFailed (another secret,
/// another user, or no secret where one is needed), Mismatch (another communicator or build),
/// InvalidArgument, SystemError (the address is taken).
///
/// A rank with a JoinOptions::fault, or whose settings are out of range, calls rank 0 only to say so, for ten
/// seconds at most: it throws that, and all others the same with its name.
///
/// `fabric`: what this rank says of its devices, PeerInfo::fabric. `links`: of rank 0, for tests and
/// measurements, which connections are made, in place of what it finds best.
Task<Membership> join(Engine& engine, JoinOptions options, std::uint64_t fabric = 0,
                      std::optional<ControlLinks> links = std::nullopt);

}  // namespace cohort
