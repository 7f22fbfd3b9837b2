// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other where only neighbours are connected from the start.
#include <cohort/net/control_plane.h>

#include <cohort/engine/when_all.h>
#include <cohort/net/control_graph.h>
#include <cohort/net/data_connection.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_engine.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace cohort::test::control_plane_sparse_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Rank kSize = 40;
/// No neighbours of each other.
constexpr Rank kOne = 5;
constexpr Rank kOther = 18;

/// One rank's plane, and what it has heard.
class Member final : public ControlPlane::Handler, public ControlPlane::GroupHandler {
 public:
  Member(Engine& engine, Membership& membership)
      : membership_(membership), plane_(engine, membership, *this), acceptor_(membership) {
    plane_.set_group_handler(*this);
    acceptor_.set_take_control(
        [this](Rank peer, Socket socket) { plane_.take_call(peer, std::move(socket)); });
  }

  void on_control(Rank from, const ControlMessage& message) noexcept override {
    words.emplace_back(from, message.sequence);
  }
  void on_departure(Rank peer, bool said_goodbye, std::uint64_t) noexcept override {
    (said_goodbye ? left : ended).push_back(peer);
  }
  void on_group_message(Rank from, const ControlMessage& message) override {
    of_groups.emplace_back(from, message.sequence);
  }
  void on_end(Rank peer, bool) noexcept override { over.insert(peer); }

  /// `stops`: reads nothing more once it has met its neighbours.
  Task<> meet(bool stops) {
    services_.spawn(acceptor_.serve());
    const ControlPlane::HelloFor hello_for = [](Rank) -> ControlPlane::Hello { return {}; };
    const ControlPlane::Taken taken = [this, stops](Rank peer, const ControlMessage&,
                                                    std::vector<Descriptor>) {
      greeted.insert(peer);
      if (stops && greeted.size() == membership_.neighbours.size()) services_.cancel();
    };
    co_await plane_.exchange_hellos(hello_for, taken, services_);
  }
  /// As one that is stopped: its connections stay open, and it reads nothing.
  Task<> stop() {
    services_.cancel();
    try {
      co_await services_.join();
    } catch (const Error&) {  // told when it happened
    }
  }
  Task<> die() {
    plane_.shutdown();
    co_await stop();
    membership_.data_listener = {};
  }

  [[nodiscard]] ControlPlane& plane() noexcept { return plane_; }
  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }
  [[nodiscard]] std::size_t connections() const {
    return static_cast<std::size_t>(std::ranges::count_if(membership_.control, &Socket::is_open));
  }

  std::vector<std::pair<Rank, std::uint64_t>> words;
  std::vector<std::pair<Rank, std::uint64_t>> of_groups;
  std::vector<Rank> left;
  std::vector<Rank> ended;
  std::set<Rank> greeted;
  std::set<Rank> over;

 private:
  Membership& membership_;
  ControlPlane plane_;
  DataAcceptor acceptor_;
  TaskScope services_{nullptr, TaskScope::OnFailure::keep_others};
};

std::vector<JoinOptions> hosts_apart() {
  std::vector<JoinOptions> world = world_of(kSize, fresh_tcp_address());
  give_secret(world);
  for (JoinOptions& options : world) options.host_id = fmt::format("host {}", options.rank);
  return world;
}

ControlMessage word(std::uint64_t sequence, ControlMessage::Type type = ControlMessage::Type::status) {
  ControlMessage message;
  message.type = type;
  message.sequence = sequence;
  return message;
}

class SparsePlane : public ::testing::Test {
 protected:
  SparsePlane() {
    for (Joined& one : joined_) members_.push_back(std::make_unique<Member>(engine_, *one.membership));
  }

  /// All meet, then `body`, then all stop. `stops`: one that stops while they meet.
  void run(const std::function<Task<>()>& body, std::optional<Rank> stops = std::nullopt) {
    auto whole = [&]() -> Task<> {
      std::vector<Task<>> meeting;
      for (Rank rank = 0; rank < kSize; ++rank)
        meeting.push_back(rank == stops ? meet_in_vain(rank) : members_[rank]->meet(false));
      co_await when_all(meeting);
      co_await body();
      for (const auto& member : members_) co_await member->stop();
    };
    engine_.run(whole());
  }

  Task<> meet_in_vain(Rank rank) {
    const auto error = co_await error_of(with_deadline(std::chrono::seconds(30), members_[rank]->meet(true)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
  }

  Member& member(Rank rank) { return *members_[rank]; }
  std::vector<Rank> neighbours_of(Rank rank) { return member(rank).membership().neighbours; }
  Task<> let_pass(Duration time) { co_await engine_.sleep_for(time); }

  WorldEngine engine_;
  std::vector<Joined> joined_ = join_on(engine_, hosts_apart(), ControlLinks::neighbours);
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(SparsePlane, the_hellos_of_all_come_to_all_over_few_connections) {
  const auto nothing = []() -> Task<> { co_return; };
  run(nothing);
  const auto bits = static_cast<std::size_t>(std::bit_width(kSize - 1));
  for (Rank rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(member(rank).greeted.size(), kSize - 1);
    EXPECT_LE(member(rank).connections(), 2 * bits);
  }
}

TEST_F(SparsePlane, hellos_go_around_a_rank_of_the_tree_that_is_stopped) {
  constexpr Rank kStopped = 1;  // its children are 3, 5, 9, 17 and 33
  const auto nothing = []() -> Task<> { co_return; };
  run(nothing, kStopped);
  for (Rank rank = 0; rank < kSize; ++rank)
    EXPECT_TRUE(rank == kStopped || member(rank).greeted.size() == kSize - 1) << rank;
}

TEST_F(SparsePlane, what_is_said_to_all_comes_to_each_once_and_in_order) {
  const auto body = [this]() -> Task<> {
    for (const std::uint64_t sequence : {1, 2, 3})
      member(kOne).plane().tell_all(word(sequence, ControlMessage::Type::lost));
    co_await let_pass(std::chrono::seconds(1));
  };
  run(body);
  using Word = std::pair<Rank, std::uint64_t>;
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kOne)
      EXPECT_THAT(member(rank).words, IsEmpty());
    else
      EXPECT_THAT(member(rank).words, ElementsAre(Word(kOne, 1), Word(kOne, 2), Word(kOne, 3))) << rank;
  }
}

TEST_F(SparsePlane, what_is_said_to_all_goes_around_those_that_read_nothing) {
  const std::vector<Rank> around = neighbours_of(kOther);
  const std::vector<Rank> stopped(around.begin() + 1, around.end());
  const auto body = [&]() -> Task<> {
    for (const Rank rank : stopped) co_await member(rank).stop();
    member(kOne).plane().tell_all(word(7));
    co_await let_pass(std::chrono::seconds(1));
  };
  run(body);
  for (Rank rank = 0; rank < kSize; ++rank) {
    const bool reads = rank != kOne && std::ranges::find(stopped, rank) == stopped.end();
    EXPECT_EQ(member(rank).words.size(), reads ? 1U : 0U) << rank;
    EXPECT_THAT(member(rank).ended, IsEmpty());
  }
}

TEST_F(SparsePlane, what_is_said_to_one_comes_to_it_alone) {
  const auto body = [this]() -> Task<> {
    EXPECT_TRUE(member(kOne).plane().send(kOther, word(7)));
    co_await let_pass(std::chrono::seconds(1));
  };
  run(body);
  for (Rank rank = 0; rank < kSize; ++rank)
    EXPECT_EQ(member(rank).words.size(), rank == kOther ? 1U : 0U) << rank;
}

TEST_F(SparsePlane,
       what_is_said_in_a_group_goes_over_a_connection_of_the_two_though_all_others_read_nothing) {
  const auto body = [this]() -> Task<> {
    for (Rank rank = 0; rank < kSize; ++rank)
      if (rank != kOne && rank != kOther) co_await member(rank).stop();
    ControlMessage message = word(7, ControlMessage::Type::goodbye);
    message.group = 1;
    EXPECT_TRUE(member(kOne).plane().send(kOther, message));
    message.sequence = 8;
    EXPECT_TRUE(member(kOne).plane().send(kOther, message));
    co_await let_pass(std::chrono::seconds(1));
    EXPECT_TRUE(member(kOne).plane().is_linked(kOther));
    EXPECT_FALSE(member(kOther).plane().is_linked(kOne)) << "it has said nothing";
  };
  run(body);
  using Word = std::pair<Rank, std::uint64_t>;
  EXPECT_THAT(member(kOther).of_groups, ElementsAre(Word(kOne, 7), Word(kOne, 8)));
}

TEST_F(SparsePlane, the_end_of_a_rank_is_seen_by_its_neighbours_and_by_those_who_have_called_or_call_it) {
  constexpr Rank kThird = 30;
  const auto body = [this]() -> Task<> {
    member(kOne).plane().reach(kOther);
    co_await let_pass(std::chrono::seconds(1));
    co_await member(kOther).die();
    co_await let_pass(std::chrono::seconds(1));
    EXPECT_TRUE(member(kThird).plane().is_reached(kOther)) << "as far as it knows";
    member(kThird).plane().reach(kOther);
    co_await let_pass(std::chrono::seconds(2));
    EXPECT_FALSE(member(kThird).plane().is_reached(kOther));
  };
  run(body);
  const std::vector<Rank> around = neighbours_of(kOther);
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kOther) continue;
    const bool sees = rank == kOne || rank == kThird || std::ranges::binary_search(around, rank);
    EXPECT_EQ(member(rank).ended.size(), sees ? 1U : 0U) << rank;
    EXPECT_EQ(member(rank).over.contains(kOther), sees) << rank;
  }
}

/// Their goodbyes come by other ways, and later, than the end of connections.
TEST_F(SparsePlane, those_who_leave_do_not_part_those_who_stay_and_nobody_takes_them_for_dead) {
  const auto body = [this]() -> Task<> {
    member(kOther).plane().reach(7);  // one that leaves
    co_await let_pass(std::chrono::seconds(1));
    for (Rank rank = 0; rank < kSize; ++rank) {
      if (rank == kOne || rank == kOther) continue;
      member(rank).plane().tell_all(word(rank, ControlMessage::Type::goodbye));
      co_await member(rank).plane().until_sent();
      co_await member(rank).die();
      co_await let_pass(std::chrono::seconds(1));
    }
    member(kOne).plane().tell_all(word(99));
    member(kOther).plane().tell_all(word(100, ControlMessage::Type::goodbye));
    co_await let_pass(std::chrono::seconds(1));
  };
  run(body);
  EXPECT_THAT(member(kOne).ended, IsEmpty());
  EXPECT_THAT(member(kOther).ended, IsEmpty());
  EXPECT_EQ(member(kOther).left.size(), kSize - 2);
  EXPECT_EQ(member(kOne).left.size(), kSize - 1);
  ASSERT_FALSE(member(kOther).words.empty());
  EXPECT_EQ(member(kOther).words.back(), (std::pair<Rank, std::uint64_t>(kOne, 99)));
}

/// Then nobody is left who would tell of the last ones.
TEST_F(SparsePlane, those_who_all_leave_at_once_are_taken_for_gone_by_those_who_stay) {
  const auto body = [this]() -> Task<> {
    for (Rank rank = 0; rank < kSize; ++rank) {
      if (rank == kOne || rank == kOther) continue;
      member(rank).plane().tell_all(word(rank, ControlMessage::Type::goodbye));
      co_await member(rank).die();
    }
    co_await let_pass(std::chrono::minutes(1));
    member(kOne).plane().tell_all(word(99));
    co_await let_pass(std::chrono::seconds(1));
  };
  run(body);
  for (const Rank rank : {kOne, kOther})
    for (const Rank gone : member(rank).ended) EXPECT_TRUE(member(rank).plane().has_refused(gone)) << gone;
  ASSERT_FALSE(member(kOther).words.empty());
  EXPECT_EQ(member(kOther).words.back(), (std::pair<Rank, std::uint64_t>(kOne, 99)));
}

TEST_F(SparsePlane, where_no_way_leads_to_a_rank_one_is_waited_for) {
  const auto body = [this]() -> Task<> {
    engine_.set_has_route(false);
    member(kOne).plane().reach(kOther);
    co_await let_pass(std::chrono::seconds(5));
    EXPECT_TRUE(member(kOne).plane().is_reached(kOther));
    engine_.set_has_route(true);
    co_await let_pass(std::chrono::seconds(5));
    EXPECT_TRUE(member(kOne).plane().is_linked(kOther));
  };
  run(body);
  EXPECT_THAT(member(kOne).ended, IsEmpty());
}

TEST_F(SparsePlane, where_no_way_leads_to_a_rank_for_long_it_has_not_left_by_that) {
  const auto body = [this]() -> Task<> {
    engine_.set_has_route(false);
    member(kOne).plane().reach(kOther);
    co_await let_pass(member(kOne).membership().host_timeout + std::chrono::seconds(5));
    EXPECT_FALSE(member(kOne).plane().is_reached(kOther));
    EXPECT_FALSE(member(kOne).plane().has_refused(kOther));
  };
  run(body);
  EXPECT_THAT(member(kOne).ended, ElementsAre(kOther));
}

/// As of a caller who has seen the end of the first one already, before or after its peer.
TEST_F(SparsePlane, a_second_connection_takes_the_place_of_the_first_one) {
  Rank caller = kOne;
  const auto call = [&](bool is_first_open) -> Task<> {
    const Membership& own = *joined_[caller].membership;
    Socket first = co_await connect_control(engine_, own, kOther);
    if (!is_first_open) first.shutdown();
    co_await let_pass(std::chrono::seconds(1));
    Socket second = co_await connect_control(engine_, own, kOther);
    co_await let_pass(std::chrono::seconds(5));
    const ControlMessage message = word(7);
    EXPECT_TRUE(second.try_send(std::as_bytes(std::span(&message, 1))));
    co_await let_pass(std::chrono::seconds(1));
    EXPECT_THAT(member(kOther).ended, IsEmpty());
    EXPECT_THAT(member(kOther).words, ElementsAre(std::pair<Rank, std::uint64_t>(caller, 7)));
    second.shutdown();
    co_await let_pass(std::chrono::seconds(5));
    EXPECT_THAT(member(kOther).ended, ElementsAre(caller));
    member(kOther).ended.clear();
    member(kOther).words.clear();
  };
  const auto body = [&]() -> Task<> {
    co_await call(true);
    caller = kOne + 1;
    co_await call(false);
  };
  run(body);
}

TEST_F(SparsePlane, that_a_host_is_lost_goes_over_all_connections) {
  const auto body = [this]() -> Task<> {
    member(kOne).plane().reach(kOther);
    co_await let_pass(std::chrono::seconds(1));
    for (Rank rank = 0; rank < kSize; ++rank)
      if (rank != kOne && rank != kOther) co_await member(rank).stop();
    member(kOne).plane().tell_all(word(6));
    member(kOne).plane().tell_all(word(7, ControlMessage::Type::lost));
    co_await let_pass(std::chrono::seconds(1));
  };
  run(body);
  EXPECT_THAT(member(kOther).words, ElementsAre(std::pair<Rank, std::uint64_t>(kOne, 7)));
}

TEST_F(SparsePlane, words_for_whom_no_connection_is_taken_hold_nobody_who_waits_for_connections_alone) {
  using Receivers = ControlPlane::Receivers;
  const auto body = [this]() -> Task<> {
    co_await member(kOther).stop();
    ControlMessage message = word(7, ControlMessage::Type::goodbye);
    message.group = 1;
    EXPECT_TRUE(member(kOne).plane().send(kOther, message));
    const auto error =
        co_await error_of(with_deadline(std::chrono::minutes(1), member(kOne).plane().until_sent()));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    co_await member(kOne).plane().until_sent(Receivers::linked);
  };
  run(body);
}

}  // namespace
}  // namespace cohort::test::control_plane_sparse_test
