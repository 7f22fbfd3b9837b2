// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace cohort::test {

class Collector;

/// A part of a test in a process of its own: what fails there fails here.
///
/// Forked when it is made, so before this process has an engine or a second thread. Threads: the test's.
class ForkedPart {
 public:
  /// The name is for people.
  ForkedPart(std::string name, const std::function<void()>& part);
  ForkedPart(const ForkedPart&) = delete;
  ForkedPart& operator=(const ForkedPart&) = delete;
  /// Kills it, if it was not joined.
  ~ForkedPart();

  /// Waits for its end, ten seconds at most, then kills it. Adds a failure with the place and the words of
  /// all that failed there, and one if it threw, was killed, or did not end.
  void join();

 private:
  [[noreturn]] void live(const std::function<void()>& part);

  const std::string name_;
  const std::unique_ptr<Collector> failures_;
  int process_;
};

}  // namespace cohort::test
