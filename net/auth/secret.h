// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/undumped_block.h>

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cohort {

/// The 32 bytes that all processes of a job know and nobody else does. Who holds it may join as any rank.
///
/// Ownership: movable, not copyable; lies in memory that core dumps leave out, overwritten when it dies; it
/// cannot be printed or formatted. A default-constructed or moved-from Secret holds nothing, and bytes() of
/// it asserts.
class Secret {
 public:
  static constexpr std::size_t kBytes = UndumpedBlock::kBytes;
  static constexpr std::size_t kLeastCharacters = 16;

  /// A new one, for a job that starts now.
  [[nodiscard]] static Secret random();

  /// These 32 bytes as they are; the caller wipes its own copy.
  [[nodiscard]] static Secret from_bytes(std::span<const std::byte, kBytes> bytes);

  /// What a file, a descriptor or a variable holds:
  ///  - 64 hexadecimal digits: the 32 bytes they spell;
  ///  - other printable ASCII text of at least 16 characters: hashed (HKDF-SHA256). White space at its end
  ///    does not count, so that a file with and one without a last newline are the same secret;
  ///  - anything else must be exactly 32 bytes, taken as they are.
  ///
  /// Hashing spreads a text's entropy and adds none: whoever records a handshake can try guesses at leisure,
  /// so a phrase that people made up is weaker than `openssl rand -hex 32`. `source` is where it came from,
  /// for the error. Throws AuthFailed with the reason.
  [[nodiscard]] static Secret parse(std::span<const std::byte> material, std::string_view source);

  /// The same, and wipes the material, also when it throws.
  [[nodiscard]] static Secret parse(std::vector<std::byte>&& material, std::string_view source);

  [[nodiscard]] bool is_set() const noexcept { return block_.is_taken(); }

  /// For handing it to a process of the same job. Valid while this object lives and is not moved from.
  [[nodiscard]] std::span<const std::byte, kBytes> bytes() const noexcept;

  template <class Stream>
  friend Stream& operator<<(Stream&, const Secret&) = delete;
  /// Without it GoogleTest would print the raw bytes of any object.
  friend void PrintTo(const Secret& secret, std::ostream* out);

 private:
  UndumpedBlock block_;
};

/// A secret, or none, that goes with options when they are copied. Every copy is wiped like any other Secret.
class SecretOfOptions : public std::optional<Secret> {
 public:
  using std::optional<Secret>::optional;
  using std::optional<Secret>::operator=;

  SecretOfOptions() = default;
  SecretOfOptions(SecretOfOptions&&) = default;
  SecretOfOptions& operator=(SecretOfOptions&&) = default;
  /// What was moved from has no secret to copy.
  SecretOfOptions(const SecretOfOptions& other);
  SecretOfOptions& operator=(const SecretOfOptions& other);
  ~SecretOfOptions() = default;
};

}  // namespace cohort
