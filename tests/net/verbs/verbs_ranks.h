// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/cohort.h>
#include <cohort/tests/support/fake_verbs_transport.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <utility>

namespace cohort::test {

/// Two ranks of one engine that reach each other over a library that is made up.
class VerbsRanks : public ::testing::Test {
 protected:
  explicit VerbsRanks(EngineOptions options = {}) : engine_(std::move(options)) {}

  /// On both.
  void run_ranks(const RankFunction& function) {
    CommunicatorOptions options;
    options.transports = std::span(&kFakeVerbsTransport, 1);
    options.timeout = std::chrono::seconds(60);  // however slow sanitizers are
    run_ranks_on(engine_, 2, function, options);
  }

  FakeVerbs& fake_ = fake_verbs_of_transport();
  Engine engine_;
};

}  // namespace cohort::test
