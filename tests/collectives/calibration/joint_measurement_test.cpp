// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <cohort/collectives/calibration/joint_measurement.h>
#include <cohort/net/membership.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

namespace cohort::joint_measurement_test {
namespace {

using namespace std::chrono_literals;

/// Ranks that measure a barrier, each with so much time.
class Measuring {
 public:
  Measuring(Communicator& comm, Duration budget) : comm_(comm) {
    membership_.rank = comm.rank();
    membership_.size = comm.size();
    together_.allow(budget);
  }

  Task<std::optional<std::array<double, 2>>> time_both() {
    const auto barrier = [this](std::size_t) {
      return make_call(operator_of<Barrier>, {.type = DataType::byte}, membership_.rank, membership_.size);
    };
    const std::optional<std::array<double, 2>> both = co_await together_.time_both(barrier, rewrite_);
    co_return both;
  }

  JointMeasurement& together() noexcept { return together_; }
  void set_rewrite(JointMeasurement::Rewrite rewrite) { rewrite_ = std::move(rewrite); }
  [[nodiscard]] int calls() const noexcept { return calls_; }

 private:
  Task<> run(const Call& call) {
    ++calls_;
    if (call.op == operator_of<AllReduce>)
      co_await comm_.all_reduce(std::span(reinterpret_cast<double*>(call.recv), call.count), ReduceOp::max);
    else
      co_await comm_.barrier();
  }

  Communicator& comm_;
  Membership membership_;
  JointMeasurement::Rewrite rewrite_;
  int calls_ = 0;
  JointMeasurement together_{comm_.engine(), membership_, [this](const Call& call) { return run(call); },
                             [](const Call&) { return nullptr; }};
};

TEST(JointMeasurement, where_one_rank_has_no_time_nobody_measures) {
  test::run_ranks(3, [](Communicator& comm) -> Task<> {
    Measuring measuring(comm, comm.rank() == 1 ? Duration(1) : Duration(1h));
    const std::optional<std::array<double, 2>> both = co_await measuring.time_both();
    EXPECT_FALSE(both.has_value());
    const int calls = measuring.calls();
    const bool has_time = co_await measuring.together().has_time();
    EXPECT_FALSE(has_time);
    EXPECT_EQ(measuring.calls(), calls) << "all know, and need not ask again";
  });
}

/// Between two calls all ranks see it.
TEST(JointMeasurement, ends_on_all_ranks_when_the_time_of_one_is_over) {
  test::run_ranks(2, [](Communicator& comm) -> Task<> {
    Measuring measuring(comm, 1h);
    int inputs = 0;
    measuring.set_rewrite([&] {
      if (++inputs == 5 && comm.rank() == 0) measuring.together().allow(Duration(1));
    });
    const std::optional<std::array<double, 2>> both = co_await measuring.time_both();
    EXPECT_FALSE(both.has_value());
    EXPECT_EQ(inputs, 5);
  });
}

TEST(JointMeasurement, with_time_measures) {
  test::run_ranks(2, [](Communicator& comm) -> Task<> {
    Measuring measuring(comm, 1h);
    const std::optional<std::array<double, 2>> both = co_await measuring.time_both();
    EXPECT_TRUE(both.has_value());
    EXPECT_GT(both.value_or(std::array<double, 2>{})[0], 0);
  });
}

}  // namespace
}  // namespace cohort::joint_measurement_test
