// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// As much of the binary interface of libpmix.so.2 as is used, as the PMIx standard has it (4.x and 5.x). It
/// is declared here so that its headers are not needed; a test compares them where they are there.
namespace cohort::pmix {

using Status = int;
inline constexpr Status kSuccess = 0;

inline constexpr std::size_t kNamespaceBytes = 256;
inline constexpr std::size_t kKeyBytes = 512;

inline constexpr std::uint32_t kRankWildcard = 0xfffffffe;
inline constexpr std::uint8_t kScopeGlobal = 3;

enum Type : std::uint16_t { kBool = 1, kString = 3, kUint32 = 14 };

struct Process {
  char space[kNamespaceBytes];
  std::uint32_t rank;
};

struct Value {
  std::uint16_t type;
  union {
    bool flag;
    char* string;
    std::uint32_t uint32;
    unsigned char largest[24];
    void* aligned;
  } data;
};

struct Info {
  char key[kKeyBytes];
  std::uint32_t flags;
  Value value;
};

inline constexpr const char* kJobSize = "pmix.job.size";
inline constexpr const char* kCollectData = "pmix.collect";

}  // namespace cohort::pmix
