// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/engine.h>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace cohort::pace_test {
namespace {

using namespace std::chrono_literals;
using Parts = std::vector<std::pair<std::size_t, std::size_t>>;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kPart = 64 * kKiB;
static_assert(Pace::kBytesBetweenLooks == 128 * kKiB);

/// Time passes with every whole part that is moved, by as much as the test says.
class PaceTest : public ::testing::Test {
 protected:
  PaceTest() : engine_(options()) {}

  /// In a turn of the loop in which something else waits.
  template <class Body>
  void run(Body& body) {
    auto turn = [&]() -> Task<> {
      engine_.post([] {});
      body();
      co_return;
    };
    engine_.run(turn());
  }
  bool move(std::size_t& done, std::size_t size, bool has_waited = false) {
    return pace_.move_awhile(done, size, kPart, size, has_waited, [this](std::size_t at, std::size_t bytes) {
      parts_.emplace_back(at, bytes);
      now_ += a_part_takes_ * (bytes / kPart);
    });
  }

  TimePoint now_{1h};
  Duration a_part_takes_{0};
  Parts parts_;
  Engine engine_;
  Pace& pace_ = engine_.pace();

 private:
  class TestClock final : public Clock {
   public:
    explicit TestClock(const TimePoint& now) : now_(now) {}
    [[nodiscard]] TimePoint now() noexcept override { return now_; }

   private:
    const TimePoint& now_;
  };
  EngineOptions options() {
    EngineOptions options;
    options.clock = std::make_unique<TestClock>(now_);
    return options;
  }
};

TEST_F(PaceTest, what_is_little_is_moved_whole_until_it_comes_to_much) {
  auto body = [&] {
    for (int i = 0; i < 3; ++i) {
      std::size_t done = 0;
      EXPECT_TRUE(move(done, 60 * kKiB));
      EXPECT_EQ(done, 60 * kKiB);
    }
    EXPECT_EQ(parts_, (Parts{{0, 60 * kKiB}, {0, 60 * kKiB}, {0, 60 * kKiB}}));
    std::size_t nothing = 0;
    EXPECT_TRUE(move(nothing, 0));
    EXPECT_EQ(parts_.size(), 3U);
  };
  run(body);
}

TEST_F(PaceTest, much_is_moved_in_parts_as_long_as_the_turn_lasts) {
  a_part_takes_ = 30us;
  std::size_t done = 0;
  auto body = [&] { EXPECT_FALSE(move(done, 5 * kPart)); };
  run(body);
  EXPECT_EQ(done, 2 * kPart);
}

/// Others that move bytes look meanwhile, so that what is left would be little.
TEST_F(PaceTest, what_has_begun_is_gone_on_with_where_it_was_left) {
  a_part_takes_ = 60us;
  constexpr std::size_t kSize = kPart + kKiB;
  std::size_t done = 0;
  auto begin = [&] {
    EXPECT_FALSE(pace_.is_turn_over());
    EXPECT_TRUE(pace_.is_little(Pace::kBytesBetweenLooks));
    EXPECT_FALSE(move(done, kSize));
    EXPECT_EQ(done, kPart);
  };
  run(begin);
  auto go_on = [&] {
    EXPECT_FALSE(pace_.is_turn_over());
    EXPECT_TRUE(move(done, kSize));
  };
  run(go_on);
  EXPECT_EQ(parts_, (Parts{{0, kPart}, {kPart, kKiB}}));
}

TEST_F(PaceTest, who_has_waited_moves_one_part_in_a_turn_that_is_over) {
  a_part_takes_ = 60us;
  std::size_t done = 0;
  auto body = [&] {
    EXPECT_FALSE(pace_.is_turn_over());
    now_ += 60us;
    EXPECT_FALSE(move(done, 5 * kPart));
    EXPECT_EQ(done, 0U);
    EXPECT_FALSE(move(done, 5 * kPart, true));
    EXPECT_EQ(done, kPart);
  };
  run(body);
}

/// The sizes of parts, in kPart, of a move that nobody waits for.
std::vector<std::size_t> sizes_of(const Parts& parts) {
  std::vector<std::size_t> sizes;
  for (const auto& [at, bytes] : parts) sizes.push_back(bytes / kPart);
  return sizes;
}

TEST_F(PaceTest, parts_grow_while_they_are_quick_and_shrink_when_they_take_long) {
  auto turn = [&]() -> Task<> {
    co_await engine_.let_others_run();
    a_part_takes_ = 5us;
    std::size_t done = 0;
    EXPECT_TRUE(move(done, 15 * kPart));
    EXPECT_EQ(done, 15 * kPart);
    EXPECT_EQ(sizes_of(parts_), (std::vector<std::size_t>{1, 2, 4, 4, 4})) << "20 us are long enough";
    parts_.clear();
    a_part_takes_ = 30us;
    done = 0;
    EXPECT_TRUE(move(done, 9 * kPart));
    EXPECT_EQ(sizes_of(parts_), (std::vector<std::size_t>{4, 2, 1, 1, 1})) << "none of 60 us";
  };
  engine_.run(turn());
}

TEST_F(PaceTest, a_clock_that_stands_still_teaches_nothing) {
  auto turn = [&]() -> Task<> {
    co_await engine_.let_others_run();
    std::size_t done = 0;
    EXPECT_TRUE(move(done, 4 * kPart));
    EXPECT_EQ(sizes_of(parts_), (std::vector<std::size_t>{1, 1, 1, 1}));
  };
  engine_.run(turn());
}

/// What is left at the end is quick because it is little.
TEST_F(PaceTest, the_rest_of_a_move_teaches_nothing) {
  auto turn = [&]() -> Task<> {
    co_await engine_.let_others_run();
    a_part_takes_ = 30us;
    for (int i = 0; i < 3; ++i) {
      std::size_t done = 0;
      EXPECT_TRUE(move(done, 3 * kPart + kKiB));
    }
    for (const auto& [at, bytes] : parts_) EXPECT_LE(bytes, kPart);
  };
  engine_.run(turn());
}

TEST_F(PaceTest, nothing_is_interrupted_for_nobody) {
  a_part_takes_ = 60us;
  std::size_t done = 0;
  auto turn = [&]() -> Task<> {
    co_await engine_.let_others_run();  // the driver has its own beginnings
    EXPECT_TRUE(move(done, 100 * kPart));
  };
  engine_.run(turn());
}

}  // namespace
}  // namespace cohort::pace_test
