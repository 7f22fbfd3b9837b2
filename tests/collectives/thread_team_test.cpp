// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/thread_team.h>

#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace cohort::thread_team_test {
namespace {

using test::error_from;
using test::kind_of;
using test::open_descriptors;

TEST(ThreadTeam, each_part_runs_once_on_a_thread_and_an_engine_of_its_own) {
  std::mutex mutex;
  std::set<Rank> parts;
  std::set<std::thread::id> threads;
  std::set<const Engine*> engines;
  run_on_threads(
      5, [] { return std::make_unique<Engine>(); },
      [&](Rank part, Engine& engine) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(engine.is_current());
        parts.insert(part);
        threads.insert(std::this_thread::get_id());
        engines.insert(&engine);
      });
  EXPECT_EQ(parts, (std::set<Rank>{0, 1, 2, 3, 4}));
  EXPECT_EQ(threads.size(), 5U);
  EXPECT_EQ(engines.size(), 5U) << "all lived at the same time";
}

TEST(ThreadTeam, nobody_begins_where_one_has_no_engine_and_one_error_says_so) {
  const auto before = open_descriptors();
  for (const int failing : {0, 2, 4}) {
    std::atomic<int> made = 0;
    const auto make = [&]() -> std::unique_ptr<Engine> {
      if (made++ == failing) throw Error(ErrorKind::SystemError, "setting up io_uring: planted");
      return std::make_unique<Engine>();
    };
    const auto error = error_from(
        [&] { run_on_threads(5, make, [](Rank part, Engine&) { ADD_FAILURE() << part << " has begun"; }); });
    ASSERT_EQ(kind_of(error), "SystemError");
    const std::string text(error->message());
    EXPECT_NE(text.find(" of 5 has no engine: setting up io_uring: planted"), std::string::npos) << text;
    EXPECT_NE(text.find("run fewer ranks"), std::string::npos) << text;
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ThreadTeam, an_engine_that_fails_in_another_way_is_no_way_out_either) {
  const auto make = []() -> std::unique_ptr<Engine> { throw std::bad_alloc(); };
  const auto error = error_from(
      [&] { run_on_threads(3, make, [](Rank part, Engine&) { ADD_FAILURE() << part << " has begun"; }); });
  EXPECT_EQ(kind_of(error), "ResourceLimit");
}

}  // namespace
}  // namespace cohort::thread_team_test
