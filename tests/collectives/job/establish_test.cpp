// SPDX-License-Identifier: Apache-2.0
// What transports are asked for, and may say, while a communicator is made.
#include <cohort/cohort.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/net/transport_list.h>
#include <cohort/tests/support/ranks.h>
#include <cohort/tests/support/world_run.h>

#include <gtest/gtest.h>

namespace cohort::establish_test {
namespace {

/// A transport that never comes to its links.
class Talker final : public Transport {
 public:
  explicit Talker(std::string words) : words_(std::move(words)) {}
  [[nodiscard]] Introduction introduce(Rank) const override { return {.words = words_, .descriptors = {}}; }
  [[nodiscard]] Task<std::unique_ptr<Link>> connect(Rank, Lane) override { co_return nullptr; }

 private:
  const std::string words_;
};

TransportKind talker(std::unique_ptr<Transport> (*make)(const TransportUse&)) {
  return {.name = "talker", .can = {}, .reaches = [](const Membership&, Rank) { return true; }, .make = make};
}

Task<> do_nothing(Communicator&) { co_return; }

void join_over(const TransportKind& kind) {
  CommunicatorOptions options;
  options.transports = std::span(&kind, 1);
  test::run_ranks(2, do_nothing, std::move(options));
}

TEST(EstablishDeathTest, words_that_would_be_read_as_others_are_not_sent) {
  const TransportKind with_a_bar = talker(
      [](const TransportUse&) -> std::unique_ptr<Transport> { return std::make_unique<Talker>("one|two"); });
  const TransportKind unprintable = talker(
      [](const TransportUse&) -> std::unique_ptr<Transport> { return std::make_unique<Talker>("one\ntwo"); });
  EXPECT_DEATH(join_over(with_a_bar), "talker says 'one.two', which does not fit a hello");
  EXPECT_DEATH(join_over(unprintable), "talker says 'one.two', which does not fit a hello");
  const TransportKind plain = talker(
      [](const TransportUse&) -> std::unique_ptr<Transport> { return std::make_unique<Talker>("one, two"); });
  join_over(plain);
}

/// From which size on ranks pull when they are told to from the first byte.
std::size_t pulled_from(bool reads_memory) {
  TransportKind kind = cohort::transports()[0];
  kind.can.reads_memory = reads_memory;
  CommunicatorOptions options;
  options.transports = std::span(&kind, 1);
  options.is_isolated = true;
  options.pull_from_bytes = 1;
  std::size_t from = 0;
  auto body = [&](Communicator& comm) -> Task<> {
    if (comm.rank() == 0) from = comm.reach().pull.from_bytes(PullUse::to_one);
    co_await comm.barrier();
  };
  test::run_ranks(2, body, std::move(options));
  return from;
}

TEST(Establish, ranks_whose_transport_does_not_read_memory_do_not_pull) {
  EXPECT_EQ(pulled_from(false), PullCrossover::kNever);
  EXPECT_EQ(pulled_from(true), 1U) << "the kernel must allow to read a process's own memory";
}

/// As ordinary users have it whose limit on open files is low: descriptors are refused until others were
/// received.
TEST(Establish, ranks_meet_where_few_descriptors_may_be_on_their_way) {
  constexpr Rank kRanks = 12;
  world::Settings settings;
  settings.seed = 1;
  settings.host_of.assign(kRanks, 0);
  settings.most_passed_descriptors = 2;
  std::vector<std::function<void(Engine&)>> bodies;
  for (Rank rank = 0; rank < kRanks; ++rank)
    bodies.emplace_back([rank](Engine& engine) {
      CommunicatorOptions options;
      options.join.address = "unix:few";
      options.join.rank = rank;
      options.join.size = kRanks;
      auto body = [&]() -> Task<> {
        Communicator comm = co_await Communicator::join(engine, std::move(options));
        co_await comm.barrier();
        co_await comm.close();
      };
      engine.run(body());
    });
  test::run_world(settings, bodies);
}

}  // namespace
}  // namespace cohort::establish_test
