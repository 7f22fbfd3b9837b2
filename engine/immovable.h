// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cohort {

/// Base of resources that others refer to by address: neither copied nor moved.
class Immovable {
 public:
  Immovable(const Immovable&) = delete;
  Immovable& operator=(const Immovable&) = delete;

 protected:
  Immovable() = default;
  ~Immovable() = default;
};

}  // namespace cohort
