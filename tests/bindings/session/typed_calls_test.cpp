// SPDX-License-Identifier: Apache-2.0
// Calls of threads on buffers whose types the compiler knows.
#include <cohort/bindings/session/session.h>

#include <cohort/tests/bindings/session/sessions.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace cohort::bindings::typed_calls_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_from;
using cohort::test::kind_of;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(TypedCalls, of_a_session_alone) {
  std::vector<double> grad(100, 1.0);
  const double mine = 0.5;
  bindings::Session session;
  const auto comm = session.join(CommunicatorOptions::from_environment());
  comm->all_reduce(grad, ReduceOp::avg);
  const double loss = comm->all_reduce(mine, ReduceOp::sum);
  EXPECT_THAT(grad, Each(1.0));
  EXPECT_EQ(loss, 0.5);
}

void work_on_something_else() {}

TEST(TypedCalls, may_be_started_and_waited_for_later) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<float> grad(100, static_cast<float>(comm->rank()));
    const std::shared_ptr<bindings::Request> sum =
        comm->prepare(bindings::call_of<AllReduce>(grad, grad, ReduceOp::avg), {.timeout = 30s});
    comm->start(sum);
    work_on_something_else();
    sum->wait();
    EXPECT_THAT(grad, Each(0.5F));
  });
}

TEST(TypedCalls, combine_elements_of_the_buffers_type) {
  run_sessions(2, [](Session&, const Member& comm) {
    const std::vector<double> ones(6, 1.0);
    std::vector<double> sums(6);
    comm->all_reduce(ones, sums, ReduceOp::sum);
    EXPECT_THAT(sums, Each(2.0));
    std::array<std::int16_t, 3> numbers{1, 2, 3};
    comm->all_reduce(numbers, ReduceOp::sum, {.timeout = 30s});
    EXPECT_THAT(numbers, ElementsAre(2, 4, 6));
    comm->reduce(ones, sums, ReduceOp::max, 1);
    EXPECT_THAT(sums, Each(comm->rank() == 1 ? 1.0 : 2.0));
    comm->reduce(sums, ReduceOp::max, 0);
    std::vector<double> share(3);
    comm->reduce_scatter(ones, share, ReduceOp::sum);
    EXPECT_THAT(share, Each(2.0));
    comm->scan(ones, sums, ReduceOp::sum);
    EXPECT_THAT(sums, Each(1.0 + comm->rank()));
    sums.assign(6, 0.0);
    comm->exclusive_scan(ones, sums, ReduceOp::sum);
    EXPECT_THAT(sums, Each(comm->rank()));
  });
}

TEST(TypedCalls, move_elements) {
  run_sessions(2, [](Session&, const Member& comm) {
    const std::array<std::uint64_t, 2> mine{10 + comm->rank(), 20 + comm->rank()};
    std::vector<std::uint64_t> all(4);
    comm->all_gather(mine, all);
    EXPECT_THAT(all, ElementsAre(10, 20, 11, 21));
    const CallSettings settings{.timeout = 30s};
    std::vector<std::uint64_t> turned(4);
    comm->all_to_all(all, turned, settings);
    EXPECT_EQ(turned[3], 20 + comm->rank());
    std::array<std::uint64_t, 2> part{};
    comm->gather(mine, all, 1);
    comm->scatter(all, part, 1);
    EXPECT_EQ(part, mine);
    comm->broadcast(part, 1);
    EXPECT_THAT(part, ElementsAre(11, 21));
    struct Point {
      float x, y;
    } point{1.0F * static_cast<float>(comm->rank()), 2};
    comm->broadcast_bytes(point, 1);
    EXPECT_EQ(point.x, 1.0F);
    std::array<Point, 2> points{};
    comm->all_gather_bytes(point, points);
    EXPECT_EQ(points[1].y, 2.0F);
    comm->barrier();
  });
}

TEST(TypedCalls, take_counts) {
  run_sessions(2, [](Session&, const Member& comm) {
    const std::vector<std::size_t> counts{1, 2};
    std::vector<int> mine(counts[comm->rank()], static_cast<int>(comm->rank()) + 1);
    std::vector<int> all(3);
    comm->all_gather_v(mine, all, counts);
    EXPECT_THAT(all, ElementsAre(1, 2, 2));
    comm->reduce_scatter_v(all, mine, counts, ReduceOp::sum);
    EXPECT_THAT(mine, Each(2 * (static_cast<int>(comm->rank()) + 1)));
    comm->gather_v(mine, all, counts, 0);
    comm->scatter_v(all, mine, counts, 0);
    EXPECT_THAT(mine, Each(2 * (static_cast<int>(comm->rank()) + 1)));
    const std::vector<std::size_t> pairs{1, 0, 0, 1};
    std::vector<int> one{static_cast<int>(comm->rank())}, own{-1};
    comm->all_to_all_vc(one, own, pairs);
    EXPECT_EQ(own, one);
    const std::vector<std::size_t> crossing =
        comm->rank() == 0 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{1, 0};
    comm->all_to_all_v(one, crossing, own, crossing);
    EXPECT_THAT(own, ElementsAre(1 - static_cast<int>(comm->rank())));
  });
}

TEST(TypedCalls, refuse_to_be_without_counts) {
  run_sessions(2, [](Session&, const Member& comm) {
    const std::vector<std::size_t> none;
    const std::vector<std::size_t> each{1, 1};
    const std::vector<int> one(1);
    const std::vector<int> two(2);
    std::vector<int> out(2);
    const auto kind_without = [](auto call) { return kind_of(error_from(call)); };
    EXPECT_EQ(kind_without([&] { comm->all_gather_v(one, out, none); }), "InvalidArgument");
    EXPECT_EQ(kind_without([&] { comm->gather_v(one, out, none, 0); }), "InvalidArgument");
    EXPECT_EQ(kind_without([&] { comm->all_to_all_vc(two, out, none); }), "InvalidArgument");
    EXPECT_EQ(kind_without([&] { comm->all_to_all_v(two, none, out, none); }), "InvalidArgument");
    EXPECT_EQ(kind_without([&] { comm->all_to_all_v(two, each, out, none); }), "InvalidArgument");
    EXPECT_EQ(kind_without([&] { comm->all_to_all_v(two, none, out, each); }), "InvalidArgument");
    out.resize(1);
    EXPECT_EQ(kind_without([&] { comm->scatter_v(two, out, none, 0); }), "InvalidArgument");
    EXPECT_EQ(kind_without([&] { comm->reduce_scatter_v(two, out, none, ReduceOp::sum); }),
              "InvalidArgument");
    comm->barrier();
  });
}

TEST(TypedCalls, take_values_and_lists) {
  run_sessions(2, [](Session&, const Member& comm) {
    EXPECT_EQ(comm->all_reduce(1.5, ReduceOp::sum), 3.0);
    EXPECT_EQ(comm->all_reduce(bfloat16(2.0F), ReduceOp::sum, {.timeout = 30s}), bfloat16(4.0F));
    const int rank = static_cast<int>(comm->rank());
    EXPECT_EQ(comm->broadcast(rank, 1), 1);
    std::vector<std::vector<float>> layers = {std::vector<float>(3, 1.0F), std::vector<float>(5, 2.0F)};
    comm->all_reduce(layers, ReduceOp::sum);
    EXPECT_THAT(layers[0], Each(2.0F));
    EXPECT_THAT(layers[1], Each(4.0F));
    std::vector<std::vector<float>> to = {std::vector<float>(3), std::vector<float>(5)};
    comm->all_reduce(std::as_const(layers), to, ReduceOp::max);
    EXPECT_EQ(to, layers);
    comm->reduce(layers, ReduceOp::max, 0);
    comm->reduce(layers, to, ReduceOp::max, 0);
    comm->broadcast(to, 0);
    std::vector<std::vector<float>> twice = {std::vector<float>(6), std::vector<float>(10)};
    comm->all_gather(layers, twice);
    EXPECT_THAT(twice[1], Each(4.0F));
    comm->reduce_scatter(twice, layers, ReduceOp::sum);
    EXPECT_THAT(layers[1], Each(8.0F));
  });
}

TEST(TypedCalls, send_and_receive) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::array<double, 2> data{1, 2};
    if (comm->rank() == 0) {
      comm->send(data, 1, 5);
      comm->send(data, 1);
    } else {
      std::array<double, 2> got{};
      comm->recv(got, 0, 5, {.timeout = 30s});
      EXPECT_EQ(got, data);
      EXPECT_EQ(comm->recv_any(got), 0U);
    }
  });
}

TEST(TypedCalls, can_be_started_as_requests) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<double> data(3, 1.0);
    const auto request = comm->prepare(call_of<AllReduce>(data, data, ReduceOp::sum));
    comm->start(request);
    request->wait();
    EXPECT_THAT(data, Each(2.0));
  });
}

TEST(TypedCalls, without_arguments_are_refused) {
  run_sessions(2, [](Session&, const Member& comm) {
    const auto error = error_from([&] { comm->call(CollectiveCall{operator_of<AllReduce>}); });
    EXPECT_EQ(kind_of(error), "InvalidArgument");
    comm->barrier();
  });
}

}  // namespace
}  // namespace cohort::bindings::typed_calls_test
