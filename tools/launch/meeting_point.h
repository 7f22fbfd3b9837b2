// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace cohort {

/// The address of the server's end of the ssh connection that this process runs in: by it the launcher's host
/// reaches this one. Empty: there is none.
[[nodiscard]] std::string address_of_ssh();

/// Where rank 0 listens for ranks on those hosts: this host's address on the way to the first of them that
/// there is a route to, of names or addresses in numbers, and a port that is free. An address of loopback
/// only where all of them are reached by it.
///
/// Throws InvalidArgument where none can be found.
[[nodiscard]] std::string choose_meeting_point(std::span<const std::string> hosts);

}  // namespace cohort
