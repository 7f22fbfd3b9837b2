// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <acl/acl.h>
#include <hccl/hccl.h>

#include <cstdint>
#include <string>
#include <vector>

/// What every rank of a communicator does to see that calls are right, whether it is a process or a thread.
namespace hccl_checks {

/// A rank's own communicator and stream. What was wrong is kept, in words.
class Checker {
 public:
  Checker(HcclComm comm, aclrtStream stream);

  void all_calls();
  void messages();
  void groups();
  void two_streams();
  void wrong_arguments();

  [[nodiscard]] uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] uint32_t ranks() const noexcept { return ranks_; }
  /// Empty: nothing.
  [[nodiscard]] const std::string& problems() const noexcept { return problems_; }

  void expect(bool is_so, const char* what, const std::string& detail = {});
  /// That the call is taken, and over without failure.
  void done(const char* what, HcclResult result);
  void code(const char* what, int expected, int got);

 private:
  template <class T>
  void equal(const char* what, const std::vector<T>& expected, const std::vector<T>& got);
  void reductions();
  void blocks();
  void blocks_that_differ();
  void types();

  HcclComm comm_;
  aclrtStream stream_;
  uint32_t rank_ = 0;
  uint32_t ranks_ = 0;
  std::string problems_;
};

}  // namespace hccl_checks
