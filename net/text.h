// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

/// A text for a field of `most` letters: itself if it fits, else its first words and "... (REST)", where
/// `rest` says where all of it can be read. Only a word that alone is longer is cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most, std::string_view rest);

}  // namespace cohort
