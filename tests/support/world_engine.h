// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/world/world.h>

#include <gtest/gtest.h>

namespace cohort::test {

/// The world of a WorldEngine; a base of it, so that it outlives the engine.
///
/// Expects in the end that it found no hang, and that everything closed its simulated sockets.
class WorldOfOne {
 protected:
  explicit WorldOfOne(unsigned late_answer_percent) : world_(settings(late_answer_percent)) {}
  ~WorldOfOne() {
    EXPECT_EQ(world_.finding(), "");
    EXPECT_EQ(world_.sockets().open_count(), 0U) << "sockets leak";
  }

  world::World world_;

 private:
  static world::Settings settings(unsigned late_answer_percent) {
    world::Settings settings;
    settings.late_answer_percent = late_answer_percent;
    settings.seed = 1;
    settings.host_of = {0};
    return settings;
  }
};

/// An engine in virtual time, like VirtualEngine, with the sockets of a simulated host: for ranks that meet
/// on one engine. Waiting costs nothing, and a hang is a failure at once.
///
/// The only process of its world, so that the thread of the test is that process. Threads: the test's.
class WorldEngine final : private WorldOfOne, public Engine {
 public:
  explicit WorldEngine(unsigned late_answer_percent = 0)
      : WorldOfOne(late_answer_percent), Engine(world_.engine_options(0)) {}

  /// As world::Sockets'.
  void set_has_route(bool has_route) noexcept { world_.sockets().set_has_route(0, has_route); }
};

}  // namespace cohort::test
