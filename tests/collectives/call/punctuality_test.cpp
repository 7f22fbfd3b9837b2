// SPDX-License-Identifier: Apache-2.0
// Everything on an engine gets its turn while collectives run, however large. Time passes as bytes come to
// lie in the results: 1 us for each 4 KiB, and not otherwise.
#include <cohort/cohort.h>
#include <cohort/engine/world/world.h>

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <vector>

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPromised = 200us;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPageFloats = kPageBytes / sizeof(float);
constexpr float kUntouched = -1;

/// What the collectives of all ranks store to, kept to the end; counts what has been stored.
class Results {
 public:
  std::span<float> make(std::size_t count) { return results_.emplace_back(count, kUntouched); }
  [[nodiscard]] std::size_t stored_pages() const {
    std::size_t pages = 0;
    for (const std::vector<float>& result : results_)
      for (std::size_t at = 0; at < result.size(); at += kPageFloats)
        pages += result[at] != kUntouched ? 1 : 0;
    return pages;
  }

 private:
  std::deque<std::vector<float>> results_;
};

class StoringClock final : public Clock {
 public:
  StoringClock(std::unique_ptr<Clock> other, const Results& results)
      : other_(std::move(other)), results_(results) {}
  [[nodiscard]] TimePoint now() noexcept override {
    return other_->now() + std::chrono::microseconds(results_.stored_pages());
  }

 private:
  std::unique_ptr<Clock> other_;
  const Results& results_;
};

/// Counts the turns of the loop.
class TurnCounter final : public Source {
 public:
  bool poll() noexcept override {
    ++turns;
    return false;
  }
  [[nodiscard]] bool is_waited_for() const noexcept override { return false; }
  [[nodiscard]] bool arm() noexcept override { return true; }
  void disarm() noexcept override {}

  std::size_t turns = 0;
};

world::Settings one_process_without_delays() {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = {0};
  settings.late_percent = 0;
  settings.pause_percent = 0;
  return settings;
}

/// All ranks on one engine, whose time is that of the results.
class Punctuality : public ::testing::Test {
 protected:
  Punctuality() : world_(one_process_without_delays()), engine_(engine_options()) {
    engine_.add_source(counter_);
  }
  ~Punctuality() override { EXPECT_EQ(world_.finding(), ""); }

  using Body = std::function<Task<>(Communicator&)>;

  void run(Rank ranks, const Body& body, bool is_isolated = false) {
    CommunicatorOptions options;
    options.join.address = "unix:ranks";
    options.is_isolated = is_isolated;
    options.buffer_bytes = std::size_t{4} << 20;
    auto all = [&]() -> Task<> {
      TaskScope tasks;
      for (Rank rank = 0; rank < ranks; ++rank) tasks.spawn(take_part(options.for_rank(rank, ranks), body));
      co_await tasks.join();
    };
    engine_.run(all());
  }

  /// Wants every turn, and measures how long the longest took, until told that it is over.
  Task<> beat() {
    while (!is_over_) {
      const TimePoint before = engine_.now();
      co_await engine_.sleep_for(0s);
      longest_ = std::max(longest_, engine_.now() - before);
    }
  }

  Results results_;
  world::World world_;
  Engine engine_;
  TurnCounter counter_;
  bool is_over_ = false;
  Duration longest_{0};

 private:
  EngineOptions engine_options() {
    EngineOptions options = world_.engine_options(0);
    options.clock = std::make_unique<StoringClock>(std::move(options.clock), results_);
    return options;
  }
  Task<> take_part(CommunicatorOptions options, const Body& body) {
    Communicator comm = co_await Communicator::join(engine_, std::move(options));
    co_await body(comm);
    co_await comm.close();
  }
};

constexpr std::size_t kLarge = std::size_t{8} << 20;

/// One large call of each operator, with a heart that beats meanwhile on the first rank.
class PunctualityOf : public Punctuality,
                      public ::testing::WithParamInterface<std::tuple<Rank, const char*, bool>> {
 protected:
  Task<> call(Communicator& comm, const std::string& name) {
    const bool is_gather = name == "all_gather";
    const bool is_scatter = name == "reduce_scatter";
    const std::size_t block = kLarge / comm.size() / sizeof(float);
    const std::size_t whole = block * comm.size();
    const std::vector<float> given(is_gather ? block : whole, 1.0F);
    const std::span<const float> send(given);
    const std::span<float> recv = results_.make(is_scatter ? block : whole);
    const bool is_source = name == "broadcast" && comm.rank() == 0;
    if (is_source) std::copy(send.begin(), send.end(), recv.begin());
    co_await comm.barrier();  // all that was stored before is the callers' own
    TaskScope heart;
    if (comm.rank() == 0) heart.spawn(beat());
    if (name == "all_reduce") co_await comm.all_reduce(send, recv, ReduceOp::max);
    if (name == "reduce") co_await comm.reduce(send, recv, ReduceOp::max, 0);
    if (name == "broadcast") co_await comm.broadcast(recv, 0);
    if (is_gather) co_await comm.all_gather(send, recv);
    if (is_scatter) co_await comm.reduce_scatter(send, recv, ReduceOp::max);
    co_await comm.barrier();
    is_over_ = true;
    co_await heart.join();
  }
};

TEST_P(PunctualityOf, a_large_collective_gives_others_their_turns) {
  const auto [ranks, name, is_isolated] = GetParam();
  const Body body = [&, name = std::string(name)](Communicator& comm) { return call(comm, name); };
  run(ranks, body, is_isolated);
  EXPECT_LE(longest_, kPromised);
  EXPECT_GE(results_.stored_pages(), std::size_t{1}) << "nothing was measured";
}

INSTANTIATE_TEST_SUITE_P(all, PunctualityOf,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::Values("all_reduce", "reduce", "broadcast",
                                                              "all_gather", "reduce_scatter"),
                                            ::testing::Bool()),
                         [](const auto& of) {
                           return fmt::format("{}_of_{}_{}", std::get<1>(of.param), std::get<0>(of.param),
                                              std::get<2>(of.param) ? "isolated" : "mapped");
                         });

TEST_F(Punctuality, small_collectives_in_a_row_give_others_their_turns) {
  constexpr std::size_t kCalls = 2000;
  const Body body = [&](Communicator& comm) -> Task<> {
    const std::vector<float> send(kPageFloats, 1.0F);
    const std::span<float> all = results_.make(kPageFloats * kCalls);
    TaskScope heart;
    heart.spawn(beat());
    for (std::size_t i = 0; i < kCalls; ++i) {
      const std::span<float> recv = all.subspan(i * kPageFloats, kPageFloats);
      co_await comm.all_reduce(std::span(send), recv, ReduceOp::max);
    }
    is_over_ = true;
    co_await heart.join();
  };
  run(1, body);
  EXPECT_LE(longest_, kPromised);
  EXPECT_EQ(results_.stored_pages(), kCalls);
}

TEST_F(Punctuality, nothing_is_interrupted_for_nobody) {
  const Body body = [&](Communicator& comm) -> Task<> {
    const std::vector<float> send(kLarge / sizeof(float), 1.0F);
    const std::span<float> recv = results_.make(send.size());
    const std::size_t turns_before = counter_.turns;
    co_await comm.all_reduce(std::span(send), recv, ReduceOp::max);
    EXPECT_EQ(counter_.turns, turns_before);
  };
  run(1, body);
  EXPECT_EQ(results_.stored_pages(), kLarge / kPageBytes);
}

TEST_F(Punctuality, a_cancelled_collective_ends_amid_its_copies) {
  const Body body = [&](Communicator& comm) -> Task<> {
    const std::vector<float> send(kLarge / sizeof(float), 1.0F);
    const std::span<float> recv = results_.make(send.size());
    auto call = [&]() -> Task<> { co_await comm.all_reduce(std::span(send), recv, ReduceOp::max); };
    bool was_cut_off = false;
    try {
      co_await with_deadline(300us, call());
    } catch (const Error& error) {
      was_cut_off = error.kind() == ErrorKind::DeadlineExceeded;
    }
    EXPECT_TRUE(was_cut_off);
  };
  run(1, body);
  EXPECT_LT(results_.stored_pages(), 2U * 300U);
}

}  // namespace
}  // namespace cohort
