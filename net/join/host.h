// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

/// What this process knows about itself and its host. Threads: any.
namespace cohort::host {

[[nodiscard]] std::uint32_t process_id() noexcept;
[[nodiscard]] std::uint32_t user_id() noexcept;

/// For people only: it is never resolved to an address.
[[nodiscard]] std::string name();

/// Equal for processes that can share memory and abstract Unix sockets: hash of the kernel's boot id, the network
/// namespace and the user.
[[nodiscard]] std::array<std::byte, 16> id();

}  // namespace cohort::host
