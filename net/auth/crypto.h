// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

/// The few primitives that joining is built from, in front of OpenSSL 3. No algorithm is written here.
///
/// Threads: any. Errors: Internal when the library itself fails (a broken or restricted installation).
namespace cohort::crypto {

using Bytes = std::span<const std::byte>;

inline constexpr std::size_t kDigestBytes = 32;
using Digest = std::array<std::byte, kDigestBytes>;

/// FIPS 180-4.
[[nodiscard]] Digest sha256(Bytes message);

/// HMAC-SHA256 (RFC 2104) over the parts one after another. The caller sees to it that no two lists of parts
/// make the same bytes: fixed sizes.
[[nodiscard]] Digest hmac_sha256(Bytes key, std::initializer_list<Bytes> parts);

/// HKDF-SHA256 (RFC 5869), extract and expand, to fill `key`.
void hkdf_sha256(Bytes secret, Bytes salt, Bytes info, std::span<std::byte> key);

/// Takes the same time wherever the first difference is. Sizes are public: different ones are unequal at
/// once.
[[nodiscard]] bool is_equal(Bytes a, Bytes b) noexcept;

/// From the operating system's generator, through OpenSSL.
void fill_random(std::span<std::byte> bytes);

/// Overwrites; the compiler cannot leave it out.
void wipe(std::span<std::byte> bytes) noexcept;

}  // namespace cohort::crypto
