// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace cohort {

/// What rank 0 saw of those who came and are not here: for the words about who is missing. Bounded, and who
/// did not prove that it knows the secret takes no place of those who did.
class JoinNotes {
 public:
  static constexpr std::size_t kMostOfMembers = 8;
  static constexpr std::size_t kMostOfStrangers = 4;

  /// The same text once more is counted.
  void add(std::string text, bool has_proven_itself);
  /// "; FIRST; SECOND (3 times); 5 more of those who did not prove who they are", or nothing.
  [[nodiscard]] std::string text() const;

 private:
  struct Kind {
    std::map<std::string, unsigned> times;
    std::size_t left_out = 0;
  };

  Kind members_;
  Kind strangers_;
};

}  // namespace cohort
