// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cohort::verbs {

/// What a request was, in its number: of a failed one nothing else is told.
struct Request {
  enum class Kind : std::uint8_t { receive, data, credit, loan, answer, end, marker, read };

  Kind kind = Kind::receive;
  std::uint8_t pair = 0;    ///< of its connection's queue pairs the one that it was posted on
  std::uint8_t read = 0;    ///< a part of that read of LoanReads
  std::uint64_t bytes = 0;  ///< fewer than 2^40

  [[nodiscard]] constexpr std::uint64_t number() const noexcept {
    return std::uint64_t{static_cast<std::uint8_t>(kind)} << kKindAt | std::uint64_t{pair} << kPairAt |
           std::uint64_t{read} << kReadAt | bytes;
  }
  [[nodiscard]] static constexpr Request of(std::uint64_t number) noexcept {
    return {static_cast<Kind>(number >> kKindAt), static_cast<std::uint8_t>(number >> kPairAt),
            static_cast<std::uint8_t>(number >> kReadAt), number & ((std::uint64_t{1} << kReadAt) - 1)};
  }
  /// For people.
  [[nodiscard]] constexpr const char* name() const noexcept {
    constexpr std::array kNames = {"receive",
                                   "RDMA WRITE",
                                   "RDMA WRITE of a credit",
                                   "RDMA WRITE of the terms of a loan",
                                   "RDMA WRITE of the answer to a loan",
                                   "RDMA WRITE of the end",
                                   "RDMA WRITE of nothing",
                                   "RDMA READ"};
    const auto index = static_cast<std::size_t>(kind);
    return index < kNames.size() ? kNames[index] : "request";
  }

 private:
  static constexpr unsigned kReadAt = 40;
  static constexpr unsigned kPairAt = 48;
  static constexpr unsigned kKindAt = 56;
};

}  // namespace cohort::verbs
