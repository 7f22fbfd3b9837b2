// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/world_run.h>

#include <cohort/engine/world/world.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

namespace cohort::test {

void run_world(const world::Settings& settings, const std::vector<std::function<void(Engine&)>>& bodies,
               const std::function<void(world::Process, EngineOptions&)>& adjust) {
  world::World world(settings);
  std::vector<std::function<void()>> processes;
  for (world::Process process = 0; process < bodies.size(); ++process)
    processes.emplace_back([&world, &body = bodies[process], &adjust, process] {
      try {
        EngineOptions options = world.engine_options(process);
        if (adjust) adjust(process, options);
        Engine engine(std::move(options));
        body(engine);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "process " << process << " of the world threw " << error.what();
      }
    });
  if (!world.run(std::move(processes))) {
    std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(settings.seed),
                 world.finding().c_str());
    std::abort();  // its threads hold what the test is about to destroy
  }
  EXPECT_EQ(world.finding(), "") << "seed " << settings.seed;
  EXPECT_EQ(world.sockets().open_count(), 0U) << "sockets leak";
}

}  // namespace cohort::test
