// SPDX-License-Identifier: Apache-2.0
// What docs/use/types.md and docs/extend/write-an-algorithm.md show is compiled here, and run: text_test.cpp
// holds text and source equal.
#include <cohort/cohort.h>
#include <cohort/collectives/machines/check/check.h>
#include <cohort/tests/support/ranks.h>
#include <cohort/tests/support/schedules.h>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace cohort::pages_test {
namespace {

// --- types

/// About one axis, by the cosine and the sine of its angle.
struct Rotation {
  float cosine = 1;
  float sine = 0;

  friend Rotation operator*(Rotation a, Rotation b) {
    return {a.cosine * b.cosine - a.sine * b.sine, a.sine * b.cosine + a.cosine * b.sine};
  }
};

Task<> show_function(Communicator& comm) {
  std::vector<Rotation> rotations(3, Rotation{0, 1});  // a quarter turn
  const auto follow = cohort::reduction<Rotation>([](Rotation first, Rotation then) { return then * first; });
  co_await comm.all_reduce(rotations, follow);
  EXPECT_EQ(rotations[2].cosine, -1);  // two of them
}

TEST(Pages, function_of_ones_own) { test::run_ranks(2, show_function); }

// --- write an algorithm

Task<double> train_epoch(int epoch) { co_return 1.0 / (epoch + 1); }

Task<> finish(Exec& x, double loss) {
  EXPECT_EQ(loss, 0.5);
  Link& link = x.link(1 - x.rank());
  co_await link.wait(Signal::Ack);
}

Task<> forms_of_awaiting(Exec& x, Barrier) {
  const int epoch = 1;
  Link& link = x.link(1 - x.rank());
  co_await link.post(Signal::Ack);                  // alone in its statement
  const double loss = co_await train_epoch(epoch);  // or to start a named local
  co_return co_await finish(x, loss);               // or returned
}

TEST(Pages, forms_of_awaiting) {
  check::CheckOptions two;
  two.ranks = 2;
  const check::Report report = test::check_schedule<Barrier>(forms_of_awaiting, links_to_all, two);
  EXPECT_TRUE(report.passed()) << report.text();
}

Task<> star(Exec& x, Broadcast op) {
  if (x.rank() != op.root) {
    Link& root = x.link(op.root);
    co_await root.post(Signal::Ack);
    co_return co_await root.recv(op.data);
  }
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).send(op.data);
}

const Algorithm<Broadcast> kStar = {.name = "star", .needs = links_to_all, .schedule = star};

TEST(Pages, algorithm_of_ones_own) {
  const check::Report report = check::check(kStar, {});
  EXPECT_TRUE(report.passed()) << report.text();

  CommunicatorOptions options;
  options.algorithms.push_back(kStar);
  const auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(10, comm.rank() == 0 ? 1.0F : 0.0F);
    co_await comm.broadcast(data, 0).with_algorithm("star");
    EXPECT_EQ(data.back(), 1.0F);
  };
  test::run_ranks(3, body, std::move(options));
}

}  // namespace
}  // namespace cohort::pages_test
