// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cohort {

/// How results go to memory.
enum class Stores : std::uint8_t {
  cached,     ///< through the cache: for what is read soon, and for anything that fits there
  streaming,  ///< past the cache, without reading the destination first. Pays only for data larger than the
              ///< last level: smaller data is written to memory although the cache would have kept it
};

/// Copies bytes between regions that are disjoint or the same (then nothing happens). Streaming stores are
/// complete when it returns: a flag written afterwards is seen after them.
///
/// There is no default for `stores`, so that an unqualified call never means std::copy.
void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores) noexcept;

}  // namespace cohort
