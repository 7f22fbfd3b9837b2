// SPDX-License-Identifier: Apache-2.0
// The steps of one rank on its own memory, in a time that passes as they store.
#include <cohort/collectives/onehost/memory_exec.h>
#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/transport_list.h>
#include <cohort/tests/support/storing_clock.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace cohort::memory_exec_test {
namespace {

using namespace std::chrono_literals;
using test::Results;
using test::StoringClock;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr float kGiven = 1;

/// A communicator of one, as far as its machine sees it.
class LoneHost final : public LinkOwner {
 public:
  [[nodiscard]] const RunningOperation& running() const noexcept override { return state; }
  void link_failed(Rank, const Error&) noexcept override {}
  void mismatch(Rank, std::uint64_t, const Signature&) noexcept override {}

  RunningOperation state;
};

Membership alone() {
  Membership membership;
  membership.peers.resize(1);
  return membership;
}

/// A page of a sum takes 3 us, so that the first part of a small one fills a turn.
std::size_t stores_of(float value) {
  if (value == kGiven) return 0;
  return value > kGiven ? 3 : 1;
}

class MemoryExecTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 8 * kMiB;

  MemoryExecTest()
      : send_(kBytes / sizeof(float), kGiven),
        recv_(results_.make(send_.size(), kGiven)),
        engine_(options()),
        resources_(engine_, membership_, host_, choice()) {
    host_.state.windows.bind(WindowId::send, reinterpret_cast<std::byte*>(send_.data()), kBytes);
    host_.state.windows.bind(WindowId::recv, reinterpret_cast<std::byte*>(recv_.data()), kBytes);
    exec_.begin(UserWindows::mapped, kBytes);
  }

  /// Runs it beside a heart that wants every turn.
  template <class Body>
  void run(Body& body) {
    auto beats = [&]() -> Task<> {
      TaskScope heart;
      heart.spawn(beat());
      co_await body();
      is_over_ = true;
      co_await heart.join();
    };
    engine_.run(beats());
  }

  static Slice in_recv(std::size_t bytes) { return {WindowId::recv, 0, bytes}; }
  static Slice in_send(std::size_t bytes) { return {WindowId::send, 0, bytes}; }
  [[nodiscard]] bool is_all(std::size_t bytes, float value) const {
    return std::ranges::all_of(recv_.first(bytes / sizeof(float)), [=](float is) { return is == value; });
  }

  Results results_{stores_of};
  std::vector<float> send_;
  std::span<float> recv_;
  Engine engine_;
  Membership membership_ = alone();
  LoneHost host_;
  Resources resources_;
  MemoryExec exec_{engine_, membership_, host_, resources_};
  std::size_t beats_ = 0;
  Duration longest_{0};

 private:
  EngineOptions options() {
    EngineOptions options;
    options.clock = std::make_unique<StoringClock>(std::make_unique<StoppedClock>(), results_);
    options.spin = 1h;  // of a time that does not pass
    return options;
  }
  static PeerTransports::Choice choice() {
    return {.kinds = transports(), .asked = {}, .buffer_bytes = 2 * kMiB, .heap_bytes = kMiB};
  }
  Task<> beat() {
    for (; !is_over_; ++beats_) {
      const TimePoint before = engine_.now();
      (void)engine_.pace().is_turn_over();  // as others do that move bytes
      co_await engine_.sleep_for(0s);
      longest_ = std::max(longest_, engine_.now() - before);
    }
  }

  class StoppedClock final : public Clock {
   public:
    [[nodiscard]] TimePoint now() noexcept override { return TimePoint(1h); }
  };
  bool is_over_ = false;
};

/// Of so many bytes that they are a part and a little more, and little altogether: it is done in parts
/// because much was moved just before, and would be a small step if it were begun anew.
TEST_F(MemoryExecTest, a_sum_in_place_that_waited_for_its_second_part_takes_its_operands_once) {
  constexpr std::size_t kSmall = 100 * 1024;
  constexpr std::size_t kSumBytes = 87'380;
  const auto body = [&]() -> Task<> {
    for (std::size_t at = 0; at < 2; ++at) co_await exec_.copy(in_recv(kSmall), in_send(kSmall));
    const PlacedSlice output[] = {{0, in_recv(kSumBytes)}};
    const PlacedSlice inputs[] = {{0, in_recv(kSumBytes)}, {0, in_send(kSumBytes)}};
    const std::size_t beats_before = beats_;
    const Combine combine(DataType::float32, ReduceOp::sum, 1);
    co_await exec_.reduce(output, inputs, combine);
    EXPECT_GT(beats_, beats_before) << "it has not waited";
  };
  run(body);
  EXPECT_TRUE(is_all(kSumBytes, 2 * kGiven));
}

TEST_F(MemoryExecTest, an_average_is_ended_in_turns_with_others) {
  const auto body = [&]() -> Task<> {
    const Combine average(DataType::float32, ReduceOp::avg, 4);
    co_await exec_.finish_average(average, in_recv(kBytes));
    const Combine sum(DataType::float32, ReduceOp::sum, 4);
    co_await exec_.finish_average(sum, in_recv(kBytes));
  };
  run(body);
  EXPECT_TRUE(is_all(kBytes, kGiven / 4));
  EXPECT_LE(longest_, 200us);
}

/// Doubles the input, and divides it if an average is asked for.
void double_it(Exec& x, const AllReduce& op) {
  x.perform(x.copy(op.recv, op.send));
  const PlacedSlice output[] = {{0, op.recv}};
  const PlacedSlice inputs[] = {{0, op.recv}, {0, op.send}};
  x.perform(x.reduce(output, inputs, op.combine));
  x.perform(x.finish_average(op.combine, op.recv));
}

OperatorArguments arguments_of(ReduceOp op) {
  OperatorArguments arguments;
  arguments.count = 8;
  arguments.element_bytes = sizeof(float);
  arguments.combine = Combine(DataType::float32, op, 4);
  return arguments;
}

TEST_F(MemoryExecTest, what_was_recorded_is_done_whenever_it_is_asked_for_and_not_before) {
  static constexpr Algorithm<AllReduce> kDoubling = {
      .name = "doubling", .local = {.announces = Announces::windows, .combine = double_it}};
  const AnyAlgorithm doubling(kDoubling);
  std::fill_n(recv_.begin(), 8, 100.0F);
  StepList summing;
  exec_.record(summing, [&] { doubling.combine(exec_, arguments_of(ReduceOp::sum)); });
  EXPECT_TRUE(is_all(8 * sizeof(float), 100));
  send_[7] = 3;  // prepared are addresses, not values
  summing.run();
  EXPECT_EQ(recv_[0], 2 * kGiven);
  EXPECT_EQ(recv_[7], 6);

  StepList averaging;
  exec_.record(averaging, [&] { doubling.combine(exec_, arguments_of(ReduceOp::avg)); });
  averaging.run();
  // The reduction divides, and the step after it once more.
  EXPECT_EQ(recv_[0], 2 * kGiven / 4 / 4);

  summing.run();
  EXPECT_EQ(recv_[0], 2 * kGiven);
}

TEST_F(MemoryExecTest, messages_pass_through_as_much_of_the_buffers_as_stays_in_caches) {
  exec_.set_cores(CoreSupply::idle, 1);
  EXPECT_EQ(exec_.plan().stage_bytes, exec_.ccl_bytes());
  EXPECT_EQ(exec_.ccl_bytes(), 2 * kMiB);
  for (const CoreSupply cores : {CoreSupply::shared, CoreSupply::one_each}) {
    exec_.set_cores(cores, 1);
    EXPECT_EQ(exec_.plan().stage_bytes, kMiB);
  }
}

/// 64 KiB in one piece, and 2 MiB in four: the places of one call after the other.
TEST_F(MemoryExecTest, what_is_staged_goes_round_the_buffers_from_call_to_call) {
  exec_.set_cores(CoreSupply::one_each, 1);
  for (const std::size_t message : {kMiB / 16, 2 * kMiB}) {
    const std::size_t piece = std::min(message, kMiB / 2);
    std::vector<std::size_t> places;
    for (std::size_t written = 0; written < 2 * exec_.ccl_bytes(); written += message) {
      exec_.count_staged_call();
      const Staging staging(exec_, message, sizeof(float));
      EXPECT_EQ(staging.pieces(), message / piece);
      for (std::size_t k = 0; k < staging.pieces(); ++k) places.push_back(staging.place(k));
    }
    const std::size_t around = exec_.ccl_bytes() / piece;
    const std::set<std::size_t> first(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(around));
    EXPECT_EQ(first.size(), around) << "each once";
    EXPECT_LE(*first.rbegin() + piece, exec_.ccl_bytes());
    for (std::size_t i = around; i < places.size(); ++i) EXPECT_EQ(places[i], places[i - around]);
  }
}

TEST_F(MemoryExecTest, what_many_ranks_share_cores_for_stays_where_it_is_unless_a_root_gives_it) {
  exec_.set_cores(CoreSupply::shared, 8);
  std::set<std::size_t> places;
  std::set<std::size_t> of_root;
  for (int call = 0; call < 4; ++call) {
    exec_.count_staged_call();
    places.insert(Staging(exec_, kMiB / 16, sizeof(float)).place(0));
    of_root.insert(Staging::of_root(exec_, kMiB / 16, sizeof(float)).place(0));
  }
  EXPECT_EQ(places.size(), 1U);
  EXPECT_EQ(of_root.size(), 4U);
}

TEST_F(MemoryExecTest, what_is_larger_than_the_ring_passes_through_two_places) {
  exec_.set_cores(CoreSupply::one_each, 1);
  exec_.count_staged_call();
  const Staging staging(exec_, 8 * kMiB, sizeof(float));
  EXPECT_EQ(staging.place(0), 0U);
  for (std::size_t k = 2; k < staging.pieces(); ++k) EXPECT_EQ(staging.place(k), staging.place(k - 2));
  EXPECT_NE(staging.place(0), staging.place(1));
}

}  // namespace
}  // namespace cohort::memory_exec_test
