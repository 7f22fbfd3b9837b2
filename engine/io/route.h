// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/address.h>

#include <optional>

/// Which of this host's addresses others reach it by. Nothing is sent, and no name of this host is looked up:
/// what it resolves to is often 127.0.1.1, or of another network. Threads: any.
namespace cohort::route {

/// The address, without a port, from which the kernel would send to `to`; nothing: there is no route.
[[nodiscard]] std::optional<Address> own_address_toward(const Address& to) noexcept;

/// Of an address of one link only (fe80:) the same on the link that `own`, of this host, is of: interfaces
/// are called otherwise on other hosts. Others as they are.
[[nodiscard]] Address on_link_of(const Address& address, const Address& own) noexcept;

}  // namespace cohort::route
