// SPDX-License-Identifier: Apache-2.0
// Everything on an engine gets its turn while collectives run, however large. Time passes as bytes come to
// lie in the results: 1 us for each 4 KiB, and not otherwise.
#include <cohort/cohort.h>
#include <cohort/engine/world/world.h>
#include <cohort/tests/support/storing_clock.h>

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace cohort::punctuality_test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPromised = 200us;
using test::kPageBytes;
using test::kPageFloats;
using test::Results;
using test::StoringClock;

/// Small values are given, larger ones sums: of those the first one counts.
std::size_t stores_of(float value) {
  if (value == test::kUntouched) return 0;
  return value <= 1 ? 1 : 2;
}

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
  settings.buffer_bytes = std::size_t{1} << 20;  // as the kernel's sockets have
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

  void run(Rank ranks, const Body& body, CommunicatorOptions options = {}) {
    options.join.address = "unix:ranks";
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

  Results results_{stores_of};
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
constexpr std::size_t kLargeOverLinks = std::size_t{3} << 20;

/// How a large call is made.
struct Way {
  Rank ranks = 1;
  std::string op;
  std::string algorithm{};  ///< empty: selected
  std::string transport{};  ///< empty: shm
  bool is_isolated = false;
  ReduceOp reduce = ReduceOp::sum;
  std::size_t bytes = kLargeOverLinks;

  [[nodiscard]] std::string name() const {
    const std::string how = !transport.empty() ? transport : is_isolated ? "isolated" : "mapped";
    return fmt::format("{}_{}{}_of_{}_{}", op, algorithm, algorithm.empty() ? "selected" : "", ranks, how);
  }
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name(); }

/// One large call, with a heart that beats meanwhile on the first rank.
class PunctualityOf : public Punctuality, public ::testing::WithParamInterface<Way> {
 protected:
  Task<> call(Communicator& comm) {
    const Way& way = GetParam();
    const bool is_gather = way.op == "all_gather";
    const bool is_scatter = way.op == "reduce_scatter";
    const std::size_t block = way.bytes / comm.size() / sizeof(float);
    const std::size_t whole = block * comm.size();
    const std::vector<float> given(is_gather ? block : whole, 1.0F);
    const std::span<float> recv = results_.make(is_scatter ? block : whole);
    const bool is_source = way.op == "broadcast" && comm.rank() == 0;
    if (is_source) std::copy(given.begin(), given.end(), recv.begin());
    co_await comm.barrier();  // all that was stored before is the callers' own
    TaskScope heart;
    if (comm.rank() == 0) heart.spawn(beat());
    Collective made = make(comm, given, recv);
    if (way.algorithm.empty())
      co_await std::move(made);
    else
      co_await std::move(made).with_algorithm(way.algorithm);
    co_await comm.barrier();
    is_over_ = true;
    co_await heart.join();
  }

 private:
  static Collective make(Communicator& comm, std::span<const float> send, std::span<float> recv) {
    const Way& way = GetParam();
    if (way.op == "all_reduce") return comm.all_reduce(send, recv, way.reduce);
    if (way.op == "reduce") return comm.reduce(send, recv, way.reduce, 0);
    if (way.op == "broadcast") return comm.broadcast(recv, 0);
    if (way.op == "all_gather") return comm.all_gather(send, recv);
    return comm.reduce_scatter(send, recv, way.reduce);
  }
};

TEST_P(PunctualityOf, a_large_collective_gives_others_their_turns) {
  CommunicatorOptions options;
  options.transport = GetParam().transport;
  options.is_isolated = GetParam().is_isolated;
  const Body body = [&](Communicator& comm) { return call(comm); };
  run(GetParam().ranks, body, std::move(options));
  EXPECT_LE(longest_, kPromised);
  EXPECT_GE(results_.stored_pages(), std::size_t{1}) << "nothing was measured";
}

/// What is selected on one host: every rank stores to memory.
std::vector<Way> ways_on_memory() {
  std::vector<Way> ways;
  for (const Rank ranks : {1U, 2U, 3U})
    for (const char* op : {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"})
      for (const bool is_isolated : {false, true})
        ways.push_back(
            {.ranks = ranks, .op = op, .is_isolated = is_isolated, .reduce = ReduceOp::max, .bytes = kLarge});
  return ways;
}

/// Over links, whatever they do: read, receive, combine what is received.
std::vector<Way> ways_over_links() {
  const std::pair<const char*, const char*> schedules[] = {
      {"all_reduce", "ring"}, {"all_reduce", "tree"}, {"all_reduce", "mesh"},     {"broadcast", "one_shot"},
      {"broadcast", "mesh"},  {"all_gather", "mesh"}, {"all_gather", "one_shot"}, {"all_gather", "ring"},
      {"reduce", "one_shot"}, {"reduce", "tree"},     {"reduce_scatter", "mesh"}};
  std::vector<Way> ways;
  for (const auto& [op, algorithm] : schedules)
    for (const Rank ranks : {2U, 4U}) {
      ways.push_back({.ranks = ranks, .op = op, .algorithm = algorithm, .transport = "tcp"});
      for (const bool is_isolated : {false, true})
        ways.push_back({.ranks = ranks, .op = op, .algorithm = algorithm, .is_isolated = is_isolated});
    }
  return ways;
}

std::string name_of(const ::testing::TestParamInfo<Way>& of) { return of.param.name(); }
INSTANTIATE_TEST_SUITE_P(on_memory, PunctualityOf, ::testing::ValuesIn(ways_on_memory()), name_of);
INSTANTIATE_TEST_SUITE_P(over_links, PunctualityOf, ::testing::ValuesIn(ways_over_links()), name_of);

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
}  // namespace cohort::punctuality_test
