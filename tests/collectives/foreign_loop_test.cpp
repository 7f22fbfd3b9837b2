// SPDX-License-Identifier: Apache-2.0
// An engine that a foreign event loop drives does all that one does that runs by itself.
#include <cohort/cohort.h>
#include <cohort/engine/io/pipe.h>
#include <cohort/engine/stepped_run.h>
#include <cohort/engine/when_all.h>
#include <cohort/notify/notify.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cohort::foreign_loop_test {
namespace {

using std::chrono::milliseconds;

/// No descriptor of the loop's own.
constexpr int kNobody = -1;

/// The foreign loop: poll(2) over the engine and one descriptor of its own, whose letters it collects.
class PollLoop {
 public:
  explicit PollLoop(int own) : own_(own) {}

  /// Until the run is over; how often it waited.
  std::size_t drive(SteppedRun& run) {
    std::size_t waits = 0;
    for (; !run.is_over(); ++waits) wait_and_step(run);
    return waits;
  }
  void wait_and_step(SteppedRun& run) {
    std::array<::pollfd, 2> ready{::pollfd{run.descriptor(), POLLIN, 0}, ::pollfd{own_, POLLIN, 0}};
    const int count = ::poll(ready.data(), ready.size(), run.timeout_ms());
    EXPECT_GE(count, 0);
    char letter = 0;
    if ((ready[1].revents & POLLIN) != 0 && ::read(own_, &letter, 1) == 1) letters_ += letter;
    run.step();
  }
  [[nodiscard]] const std::string& letters() const noexcept { return letters_; }

 private:
  int own_;
  std::string letters_;
};

struct Ends {
  std::array<int, 2> numbers{};
  Ends() { EXPECT_EQ(::pipe(numbers.data()), 0); }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    ::close(numbers[0]);
    ::close(numbers[1]);
  }
  void write(char letter) const { EXPECT_EQ(::write(numbers[1], &letter, 1), 1); }
};

TEST(ForeignLoop, timers_posts_offloads_and_sockets_go_on_and_so_does_the_loop) {
  const Ends own;
  Engine engine;
  std::string done;
  auto sleep = [&]() -> Task<> {
    while (done.find('p') == std::string::npos) co_await engine.sleep_for(milliseconds(1));
    done += 's';
    own.write('a');
  };
  auto compute = [&]() -> Task<> {
    const auto question = [] { return 42; };
    const int answer = co_await engine.offload(question);
    EXPECT_EQ(answer, 42);
    done += 'c';
    own.write('b');
  };
  auto talk = [&]() -> Task<> {
    Listener listener(engine, Address::parse("127.0.0.1:0"));
    const Address address = listener.local_address();
    auto accepting = [&]() -> Task<Socket> {
      Socket accepted = co_await listener.accept();
      co_return accepted;
    };
    auto both = co_await when_all(accepting(), Socket::connect(engine, address));
    auto& [server, client] = both;
    const std::array<std::byte, 1> sent{std::byte{7}};
    std::array<std::byte, 1> got{};
    co_await client.send(sent);
    const bool came = co_await server.receive(got);
    EXPECT_TRUE(came && got == sent);
    done += 't';
    own.write('c');
  };
  auto all = [&]() -> Task<> { co_await when_all(sleep(), compute(), talk()); };
  SteppedRun run(engine, all());
  std::thread poster([&] { engine.post([&] { done += 'p'; }); });
  PollLoop loop(own.numbers[0]);
  loop.drive(run);
  poster.join();
  run.take();
  EXPECT_THAT(done, testing::UnorderedElementsAre('s', 'c', 't', 'p'));
  while (loop.letters().size() < 3) {
    auto nothing = [&]() -> Task<> { co_await engine.sleep_for(milliseconds(1)); };
    SteppedRun again(engine, nothing());
    loop.drive(again);
  }
  EXPECT_THAT(loop.letters(), testing::UnorderedElementsAre('a', 'b', 'c'));
}

TEST(ForeignLoop, waits_as_long_as_nothing_happens) {
  const Ends own;
  Engine engine;
  auto sleep = [&]() -> Task<> { co_await engine.sleep_for(milliseconds(50)); };
  SteppedRun run(engine, sleep());
  EXPECT_GE(run.next_deadline(), engine.now() - milliseconds(50));
  EXPECT_LE(PollLoop(own.numbers[0]).drive(run), 10U);
}

TEST(ForeignLoop, what_the_program_makes_ready_between_two_steps_does_not_wait) {
  Engine engine;
  Notify notify;
  auto wait = [&]() -> Task<> { co_await notify.wait(); };
  SteppedRun run(engine, wait());
  EXPECT_EQ(run.timeout_ms(), -1);
  notify.post();
  EXPECT_EQ(run.timeout_ms(), 0);
  run.step();
  EXPECT_TRUE(run.is_over());
  run.take();
}

TEST(ForeignLoop, what_another_thread_posts_between_two_steps_wakes_it) {
  Engine engine;
  Notify notify;
  auto wait = [&]() -> Task<> { co_await notify.wait(); };
  SteppedRun run(engine, wait());
  std::thread poster([&] { engine.post([&] { notify.post(); }); });
  poster.join();
  PollLoop(kNobody).drive(run);
  run.take();
}

TEST(ForeignLoop, what_the_program_begins_between_two_steps_goes_on) {
  const Ends ends;
  Engine engine;
  TaskScope more;
  Notify go_on;
  bool has_read = false;
  auto wait = [&]() -> Task<> {
    co_await go_on.wait();
    co_await more.join();
  };
  auto read = [&]() -> Task<> {
    char letter = 0;
    IoOperation reading(
        engine.driver(),
        {.kind = IoKind::read, .descriptor = ends.numbers[0], .address = &letter, .bytes = sizeof letter});
    const int got = co_await reading;
    has_read = got == 1 && letter == 'x';
    go_on.post();
  };
  SteppedRun run(engine, wait());
  run.step();
  more.spawn(read());
  ends.write('x');
  PollLoop(kNobody).drive(run);
  run.take();
  EXPECT_TRUE(has_read);
}

TEST(ForeignLoop, what_is_over_at_once_needs_no_step) {
  Engine engine;
  auto nothing = []() -> Task<> { co_return; };
  const SteppedRun run(engine, nothing());
  EXPECT_TRUE(run.is_over());
  run.take();
}

TEST(ForeignLoop, a_failure_is_thrown_at_the_end_and_background_work_is_finished_first) {
  const Ends own;
  Engine engine;
  bool is_settled = false;
  auto settle = [&]() -> Task<> {
    co_await engine.sleep_for(milliseconds(1));
    is_settled = true;
  };
  auto fail = [&]() -> Task<> {
    engine.background().spawn(settle());
    co_await engine.sleep_for(Duration::zero());
    throw std::runtime_error("out of coffee");
  };
  SteppedRun run(engine, fail());
  PollLoop(own.numbers[0]).drive(run);
  EXPECT_TRUE(is_settled);
  try {
    run.take();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "out of coffee");
  }
}

TEST(ForeignLoopDeathTest, a_run_that_is_left_before_its_end_asserts) {
  auto leave = [] {
    Engine engine;
    auto sleep = [&]() -> Task<> { co_await engine.sleep_for(std::chrono::hours(1)); };
    const SteppedRun run(engine, sleep());
  };
  EXPECT_DEATH(leave(), "a foreign loop left an engine before its task was over");
}

/// Rank 1 runs by itself, rank 0 in the foreign loop.
void sum_with_a_foreign_loop(const char* transport, std::size_t count) {
  constexpr int kRounds = 50;
  const auto take_part = [&](Engine& engine, Rank rank) -> Task<> {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    options.join.rank = rank;
    options.join.size = 2;
    options.join.address = fmt::format("unix:cohort-foreign-loop-{}-{}-{}", ::getpid(), transport, count);
    Communicator comm = co_await Communicator::join(engine, std::move(options));
    std::vector<float> data(count);
    for (int round = 0; round < kRounds; ++round) {
      std::ranges::fill(data, static_cast<float>(rank + round));
      co_await comm.all_reduce(data, ReduceOp::sum);
      EXPECT_EQ(data.back(), static_cast<float>(1 + 2 * round));
    }
    co_await comm.close();
  };
  std::thread other([&] {
    Engine engine;
    engine.run(take_part(engine, 1));
  });
  {
    const Ends own;
    Engine engine;
    SteppedRun run(engine, take_part(engine, 0));
    PollLoop(own.numbers[0]).drive(run);
    run.take();
  }
  other.join();
}

TEST(ForeignLoop, collectives_of_every_size_complete_over_shared_memory_and_tcp) {
  for (const char* transport : {"shm", "tcp"})
    for (const std::size_t count : {std::size_t{2}, std::size_t{4'000}, std::size_t{300'000}})
      sum_with_a_foreign_loop(transport, count);
}

}  // namespace
}  // namespace cohort::foreign_loop_test
