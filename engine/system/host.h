// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

/// What this process knows about where it runs. Threads: any.
namespace cohort::host {

/// The effective user: what the kernel tells the other end of a Unix socket.
[[nodiscard]] std::uint32_t user_id() noexcept;

/// Whether only this user's processes and files are shown as his. A user namespace shows all users that it
/// has no number for as one, the overflow user, and this process may be of that number itself.
[[nodiscard]] bool tells_users_apart();

/// For people only: it is never resolved to an address.
[[nodiscard]] std::string name();

/// Equal for processes that can share memory and abstract Unix sockets, different for all others: the
/// kernel's boot id, the network namespace and the user. Tells about this host; hash it before it goes
/// anywhere.
[[nodiscard]] std::string fingerprint();

/// Equal for all processes that one kernel runs, so on all containers of a machine: its boot id, or, where
/// that is hidden, the host's name. Hash it before it goes anywhere.
[[nodiscard]] std::string kernel_id();

}  // namespace cohort::host
