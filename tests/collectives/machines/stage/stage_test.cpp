// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/stage.h>

#include <cohort/engine/error.h>
#include <cohort/streams/schedule_streams.h>

#include <gmock/gmock.h>

namespace cohort::machine::stage_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Rank kRanks = 2;

/// Lets every wait go on in the order in which the stage picks, and writes down what it is told.
class Recorder final : public Stage {
 public:
  explicit Recorder(std::uint64_t seed = 0) : Stage(kRanks, seed) {}

  class Pause final : public Operation {
   public:
    explicit Pause(Recorder& stage) noexcept : stage_(stage) {}
    bool await_ready() const noexcept { return false; }
    template <class P>
    bool await_suspend(std::coroutine_handle<P> waiter) {
      if (!suspend(waiter, detail::scope_of(waiter))) return false;
      if (stage_.answers) stage_.resume_later(*this, stage_.running());
      return true;
    }
    void await_resume() const { throw_if_cancelled(); }

   private:
    void request_cancel() noexcept override { complete_cancelled(); }
    Recorder& stage_;
  };

  Task<> pause() { co_await Pause(*this); }
  void note() { log.push_back(std::to_string(rank_of(running())) + " " + name_of(running())); }

  bool answers = true;
  std::vector<std::string> log;
  std::vector<std::string> joins;
  bool is_stuck = false;

 private:
  void forked(StreamId, StreamId) noexcept override {}
  void joined(StreamId parent, std::span<const StreamId> children) noexcept override {
    joins.push_back(name_of(parent) + " of " + std::to_string(children.size()));
  }
  void stuck() override { is_stuck = true; }
  NotifyId makes_notify(std::uint32_t) override { return 0; }
  void notify_is_gone(NotifyId) noexcept override {}
  void posts(NotifyId) noexcept override {
    if (wait_ != nullptr) resume_later(*std::exchange(wait_, nullptr), waiter_);
  }
  bool takes_post(NotifyId) override { return false; }
  void awaits_post(NotifyId, Operation& wait) noexcept override {
    wait_ = &wait;
    waiter_ = running();
  }

  Operation* wait_ = nullptr;
  StreamId waiter_ = 0;
};

std::vector<Task<>> on_all(Task<> first, Task<> second) {
  std::vector<Task<>> ranks;
  ranks.push_back(std::move(first));
  ranks.push_back(std::move(second));
  return ranks;
}

Task<> nothing() { co_return; }

TEST(Stage, knows_which_stream_runs_after_every_suspension) {
  Recorder stage;
  ScheduleStreams streams(&stage);
  auto inner = [&]() -> Task<> {
    co_await stage.pause();
    stage.note();
  };
  auto outer = [&]() -> Task<> {
    stage.note();
    co_await streams.fork_join(inner, inner);
    stage.note();
  };
  auto rank = [&]() -> Task<> {
    co_await streams.fork_join(outer, inner);
    stage.note();
    co_await streams.fork_join(inner, nothing);
    stage.note();
  };
  stage.run(on_all(nothing(), rank()));
  EXPECT_THAT(stage.log, ElementsAre("1 stream 1", "1 stream 1.1", "1 stream 1.2", "1 stream 1", "1 stream 2",
                                     "1 main stream", "1 stream 1", "1 main stream"));
  EXPECT_THAT(stage.joins, ElementsAre("stream 1 of 2", "main stream of 2", "main stream of 2"));
}

TEST(Stage, knows_who_runs_after_a_notify) {
  Recorder stage;
  ScheduleStreams streams(&stage);
  LocalNotify notify = streams.notify(1);
  auto wait = [&]() -> Task<> {
    co_await notify.wait();
    stage.note();
  };
  auto post = [&]() -> Task<> {
    co_await stage.pause();
    notify.post();
    stage.note();
  };
  auto rank = [&]() -> Task<> { co_await streams.fork_join(wait, post); };
  stage.run(on_all(rank(), nothing()));
  EXPECT_THAT(stage.log, ElementsAre("0 stream 2", "0 stream 1"));
}

TEST(Stage, the_same_seed_gives_the_same_order_and_some_other_gives_another) {
  const auto order = [](std::uint64_t seed) {
    Recorder stage(seed);
    auto step = [&]() -> Task<> {
      for (int i = 0; i < 5; ++i) {
        co_await stage.pause();
        stage.note();
      }
    };
    stage.run(on_all(step(), step()));
    return stage.log;
  };
  EXPECT_EQ(order(7), order(7));
  bool differs = false;
  for (std::uint64_t seed = 1; seed < 10; ++seed) differs = differs || order(seed) != order(0);
  EXPECT_TRUE(differs);
}

TEST(Stage, says_that_everybody_waits_for_ever_and_ends_them) {
  Recorder stage;
  stage.answers = false;
  EXPECT_THROW(stage.run(on_all(stage.pause(), nothing())), Error);
  EXPECT_TRUE(stage.is_stuck);
  EXPECT_TRUE(stage.is_ending());
}

TEST(Stage, a_rank_that_fails_ends_the_others) {
  Recorder stage;
  auto fail = [&]() -> Task<> {
    co_await stage.pause();
    throw Error(ErrorKind::Internal, "on purpose");
  };
  auto endless = [&]() -> Task<> {
    for (;;) co_await stage.pause();
  };
  try {
    stage.run(on_all(fail(), endless()));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("on purpose"));
  }
}

}  // namespace
}  // namespace cohort::machine::stage_test
