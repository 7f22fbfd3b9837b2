// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/mutants.h>

#include <cstdio>

namespace cohort::check {

/// Checks every mutant, or of a sample every `stride`-th, of the cases on so many threads; prints those that
/// survive, a table of what became of them by algorithm, and the sum as the last line. True if none survives
/// whose reason is not known. Progress is shown only on a terminal.
[[nodiscard]] bool run_mutants_of(const std::vector<Case>& list, std::size_t stride, unsigned threads,
                                  std::FILE* out, std::FILE* progress);

}  // namespace cohort::check
