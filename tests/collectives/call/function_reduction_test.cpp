// SPDX-License-Identifier: Apache-2.0
// Reductions by a function of the program's: in rank order, whatever the size, the transport and the ranks.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cohort::function_reduction_test {
namespace {

using testing::HasSubstr;

/// x -> scale * x + offset, modulo 2^32: following one another is associative, and not commutative. Of a size
/// that divides no piece evenly.
struct Map {
  std::uint32_t scale = 1;
  std::uint32_t offset = 0;
  std::uint32_t steps = 1;
  bool operator==(const Map&) const = default;
};

Map follow(Map first, Map then) {
  return {first.scale * then.scale, first.offset * then.scale + then.offset, first.steps + then.steps};
}

const auto kFollow = reduction<Map>([](Map first, Map then) { return follow(first, then); });

Map map_of(Rank rank, std::size_t i) {
  return {static_cast<std::uint32_t>(2 * i + 3 * rank + 3), static_cast<std::uint32_t>(i + 7 * rank), 1};
}

std::vector<Map> maps_of(Rank rank, std::size_t count) {
  std::vector<Map> maps(count);
  for (std::size_t i = 0; i < count; ++i) maps[i] = map_of(rank, i);
  return maps;
}

/// Of ranks [0, end), from element `at` on.
std::vector<Map> combined(Rank end, std::size_t at, std::size_t count) {
  std::vector<Map> maps(count);
  for (std::size_t i = 0; i < count; ++i) {
    maps[i] = map_of(0, at + i);
    for (Rank rank = 1; rank < end; ++rank) maps[i] = follow(maps[i], map_of(rank, at + i));
  }
  return maps;
}

Task<> check_all_reduce(Communicator& comm, std::size_t count) {
  const std::vector<Map> in = maps_of(comm.rank(), count);
  const std::vector<Map> expected = combined(comm.size(), 0, count);
  std::vector<Map> out(count);
  co_await comm.all_reduce(in, out, kFollow);
  EXPECT_TRUE(out == expected) << count;
  EXPECT_TRUE(in == maps_of(comm.rank(), count));
  out = in;
  co_await comm.all_reduce(out, kFollow);
  EXPECT_TRUE(out == expected) << count;
}

Task<> check_reduce(Communicator& comm, std::size_t count) {
  for (Rank root = 0; root < comm.size(); ++root) {
    const std::vector<Map> in = maps_of(comm.rank(), count);
    const std::vector<Map> expected = combined(comm.size(), 0, count);
    std::vector<Map> out(comm.rank() == root ? count : 0);
    co_await comm.reduce(in, out, kFollow, root);
    EXPECT_TRUE(comm.rank() != root || out == expected) << count;
    out = in;
    co_await comm.reduce(out, kFollow, root);
    EXPECT_TRUE(out == (comm.rank() == root ? expected : in)) << count;
  }
}

Task<> check_reduce_scatter(Communicator& comm, std::size_t count) {
  std::vector<Map> in = maps_of(comm.rank(), count * comm.size());
  const std::vector<Map> expected = combined(comm.size(), comm.rank() * count, count);
  std::vector<Map> out(count);
  co_await comm.reduce_scatter(in, out, kFollow);
  EXPECT_TRUE(out == expected) << count;
  const std::span<Map> block = std::span(in).subspan(comm.rank() * count, count);
  co_await comm.reduce_scatter(in, block, kFollow);
  EXPECT_TRUE(std::equal(block.begin(), block.end(), expected.begin(), expected.end())) << count;
}

Task<> check_scans(Communicator& comm, std::size_t count) {
  const std::vector<Map> in = maps_of(comm.rank(), count);
  std::vector<Map> out(count);
  co_await comm.scan(in, out, kFollow);
  EXPECT_TRUE(out == combined(comm.rank() + 1, 0, count)) << count;
  out = in;
  co_await comm.scan(out, kFollow);
  EXPECT_TRUE(out == combined(comm.rank() + 1, 0, count)) << count;
  out = in;
  co_await comm.exclusive_scan(out, kFollow);
  EXPECT_TRUE(out == (comm.rank() == 0 ? in : combined(comm.rank(), 0, count))) << count;
}

/// None, few, as many as go at once, and so many that several pieces are shared out, with a rest.
Task<> check_all(Communicator& comm) {
  for (const std::size_t count : {0U, 1U, 7U, 1000U, 100'003U}) {
    co_await check_all_reduce(comm, count);
    co_await check_reduce(comm, count);
    co_await check_reduce_scatter(comm, count);
    co_await check_scans(comm, count);
  }
}

TEST(FunctionReduction, combines_in_rank_order_on_every_transport) {
  for (const char* const transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    for (const Rank ranks : {1U, 2U, 3U, 5U}) test::run_ranks_in_world(ranks, check_all, options);
  }
  test::run_ranks_in_world(4, check_all, {}, 2);
}

struct Large {
  std::array<double, 512> values{};
};
static_assert(sizeof(Large) == kMostElementBytes);

TEST(FunctionReduction, takes_elements_of_any_size_up_to_a_page) {
  auto body = [](Communicator& comm) -> Task<> {
    const auto largest =
        reduction<std::uint8_t>([](std::uint8_t a, std::uint8_t b) { return std::max(a, b); });
    std::vector<std::uint8_t> bytes(100'001, static_cast<std::uint8_t>(comm.rank() + 1));
    co_await comm.all_reduce(bytes, largest);
    EXPECT_THAT(bytes, testing::Each(comm.size()));
    const auto sum = reduction<Large>([](const Large& a, const Large& b) {
      Large both = a;
      for (std::size_t i = 0; i < both.values.size(); ++i) both.values[i] += b.values[i];
      return both;
    });
    std::vector<Large> large(300);
    for (Large& each : large) each.values.fill(comm.rank() + 1.0);
    co_await comm.all_reduce(large, sum);
    EXPECT_EQ(large.front().values.front(), 6.0);
    EXPECT_EQ(large.back().values.back(), 6.0);
  };
  test::run_ranks_in_world(3, body);
}

TEST(FunctionReduction, keeps_its_place_among_other_calls) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<Map> maps = maps_of(comm.rank(), 100'000);
    std::vector<float> floats(10, 1.0F);
    co_await when_all(comm.all_reduce(maps, kFollow), comm.all_reduce(floats, ReduceOp::sum),
                      comm.all_reduce(floats, ReduceOp::sum).with_deadline(std::chrono::seconds(5)));
    EXPECT_TRUE(maps == combined(comm.size(), 0, maps.size()));
    EXPECT_EQ(floats.front(), 9.0F);
  };
  test::run_ranks_in_world(3, body);
}

TEST(FunctionReduction, wrong_arguments_are_refused_where_the_call_is_made) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<Map> maps(9);
    const auto expect_invalid = [](const std::function<void()>& call, const char* words) {
      try {
        call();
        ADD_FAILURE() << "was accepted: " << words;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr(words));
      }
    };
    const std::span<Map> all(maps);
    expect_invalid([&] { (void)comm.all_reduce(all.first(4), all.subspan(2, 4), kFollow); }, "overlap");
    expect_invalid([&] { (void)comm.all_reduce(all.first(4), all.subspan(4, 5), kFollow); }, "same size");
    expect_invalid([&] { (void)comm.all_reduce(all.first(4), all.subspan(4, 5), kFollow); },
                   "4 elements of input and 5 of output");
    expect_invalid([&] { (void)comm.reduce_scatter(all, all.first(4), kFollow); },
                   "9 elements cannot be split evenly over 2 ranks; pad the input with 1 neutral elements to "
                   "10");
    expect_invalid([&] { (void)comm.reduce_scatter(all.first(8), all.first(3), kFollow); },
                   "8 elements over 2 ranks needs 4 elements of output, not 3");
    expect_invalid([&] { (void)comm.all_reduce(all, FunctionReduction<Map>{}); }, "has no function");
    const ElementFunction nothing;
    expect_invalid([&] { (void)comm.scan(all, FunctionReduction<Map>{&nothing}); }, "has no function");
    expect_invalid([&] { (void)comm.reduce(all, kFollow, 2); }, "rank 2, but the ranks are 0 to 1");
    expect_invalid([&] { (void)comm.all_reduce(all, kFollow).with_algorithm("ring"); },
                   "no algorithm to choose");
    co_await comm.barrier();
  };
  test::run_ranks_in_world(2, body);
}

class Disagreeing : public testing::TestWithParam<const char*> {
 protected:
  static void expect_mismatch(const RankFunction& body, const std::string& words) {
    CommunicatorOptions options;
    options.transport = GetParam();
    options.is_isolated = true;
    for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(3, body, std::move(options))) {
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->kind(), ErrorKind::Mismatch) << outcome.error->what();
      EXPECT_EQ(outcome.error->culprit(), 2U) << outcome.error->what();
      EXPECT_THAT(outcome.error->what(), HasSubstr(words));
    }
  }
};

struct OtherMap : Map {};

TEST_P(Disagreeing, about_count_type_or_kind_of_reduction_is_told) {
  auto counts = [](Communicator& comm) -> Task<> {
    std::vector<Map> maps(comm.rank() == 2 ? 5 : 4);
    co_await comm.all_reduce(maps, kFollow);
  };
  expect_mismatch(counts, "count differs: rank 2 has 5, ranks 0, 1 have 4");
  auto types = [](Communicator& comm) -> Task<> {
    std::vector<Map> maps(4);
    std::vector<OtherMap> others(4);
    const auto first = reduction<OtherMap>([](OtherMap a, OtherMap) { return a; });
    if (comm.rank() == 2)
      co_await comm.all_reduce(others, first);
    else
      co_await comm.all_reduce(maps, kFollow);
  };
  expect_mismatch(types, "reduction differs: rank 2 has a function on elements of digest");
  auto kinds = [](Communicator& comm) -> Task<> {
    std::vector<std::uint8_t> bytes(48);
    std::vector<Map> maps(4);
    if (comm.rank() == 2)
      co_await comm.all_reduce(bytes, ReduceOp::bit_or);
    else
      co_await comm.all_reduce(maps, kFollow);
  };
  expect_mismatch(kinds, "data type differs: rank 2 has uint8, ranks 0, 1 have one of the program's");
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Disagreeing, testing::Values("shm", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

/// What the functions below throw.
enum class Thrown : std::uint8_t { standard, error, number };
thread_local Thrown thrown = Thrown::standard;

const auto kFails = reduction<int>([](int a, int b) {
  if (a + b <= 5) return a + b;
  if (thrown == Thrown::standard) throw std::runtime_error("too much");
  if (thrown == Thrown::error) throw Error(ErrorKind::Cancelled, "too much");
  throw 5;
});

class Throwing : public testing::TestWithParam<const char*> {};

/// Ranks 0 and 1 have 1 and 2, rank 2 has 3: it alone scans more than 5. As large as several messages, too.
TEST_P(Throwing, from_its_function_ends_the_call_on_every_rank_as_an_error_of_the_program) {
  for (const Thrown what : {Thrown::standard, Thrown::error, Thrown::number})
    for (const std::size_t count : {4U, 300'000U}) {
      auto body = [what, count](Communicator& comm) -> Task<> {
        thrown = what;
        const std::vector<int> in(count, static_cast<int>(comm.rank()) + 1);
        std::vector<int> out(count);
        std::optional<Error> error;
        try {
          co_await comm.scan(in, out, kFails);
          co_await comm.barrier();
        } catch (const Error& caught) {
          error = caught;
        }
        co_await comm.engine().sleep_for(std::chrono::milliseconds(1));  // the engine goes on
        EXPECT_TRUE(comm.is_failed());
        if (error) throw Error(*error);
      };
      CommunicatorOptions options;
      options.transport = GetParam();
      options.is_isolated = true;
      for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(3, body, std::move(options))) {
        ASSERT_TRUE(outcome.error);
        EXPECT_EQ(outcome.error->kind(), ErrorKind::Internal) << outcome.error->what();
        EXPECT_EQ(outcome.error->culprit(), 2U) << outcome.error->what();
        EXPECT_THAT(outcome.error->what(), HasSubstr("scan(a function on elements of digest "));
        EXPECT_THAT(outcome.error->what(),
                    HasSubstr("#1 (after message 1) on 'world': the program's function"));
        EXPECT_THAT(outcome.error->what(),
                    HasSubstr(what == Thrown::number ? "no std::exception" : "too much"));
      }
    }
}

/// All of them at once, each with as good a cause.
TEST_P(Throwing, on_all_ranks_ends_the_call_on_all) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<int> data(100'000, 3);
    co_await comm.all_reduce(data, kFails);
  };
  CommunicatorOptions options;
  options.transport = GetParam();
  options.is_isolated = true;
  for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(3, body, std::move(options))) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::Internal) << outcome.error->what();
    EXPECT_TRUE(outcome.error->culprit());
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Throwing, testing::Values("shm", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cohort::function_reduction_test
