// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/hccl/comm.h>

#include <hccl/hccl_types.h>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace cohort::bindings::hccl {

/// What communicators of programs for HCCL are made with: the environment's, of which HCCL_BUFFSIZE (MiB),
/// HCCL_EXEC_TIMEOUT, HCCL_CONNECT_TIMEOUT (seconds) and HCCL_DETERMINISTIC count where the variables of the
/// library for the same are not set; then what `config`, if it is not null, has other than
/// HcclCommConfigInit() makes it. Throws InvalidArgument naming the variable, CodedError.
[[nodiscard]] CommunicatorOptions options_of(const char* function, const HcclCommConfig* config);

/// Puts into them where ranks meet that have the bytes of one's root_info(). Throws InvalidArgument for bytes
/// that are none.
void place_by_root_info(const HcclRootInfo& info, Rank rank, Rank size, CommunicatorOptions& options);

/// Puts into them where the ranks of a rank table meet: ranks of one host by a Unix address of its user's,
/// which needs no secret. Throws as await_rank_table() does, CodedError for a rank that is none.
void place_by_table(const char* function, const std::string& path, Rank rank, CommunicatorOptions& options);

/// Puts into them where ranks meet that know a name in common, and each its number: an address of this host,
/// and of the `cohort run` that they are of.
void place_by_name(const std::string& name, Rank rank, Rank size, CommunicatorOptions& options);

/// Joins, and makes it the communicator of this thread's device. Throws what joining throws.
[[nodiscard]] std::shared_ptr<Comm> join(CommunicatorOptions options);
/// Those of all devices, at once: rank i on devices[i].
[[nodiscard]] std::vector<std::shared_ptr<Comm>> join_all(std::span<const std::int32_t> devices);

}  // namespace cohort::bindings::hccl
