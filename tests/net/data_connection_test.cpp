// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/data_connection.h>
#include <cohort/net/data_connections.h>

#include <cohort/engine/when_all.h>
#include <cohort/net/connections.h>
#include <cohort/net/join/join.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string_view>

#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>

namespace cohort::data_connection_test {
namespace {

using ::cohort::test::error_of;
using ::cohort::test::fresh_unix_address;
using ::cohort::test::join_on;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::cohort::test::open_descriptors;
using ::cohort::test::secret_of;
using ::cohort::test::world_of;
using ::testing::HasSubstr;

/// Of the communicator that was joined.
constexpr Path joined(Lane lane) { return {.group = 0, .lane = lane}; }

/// A world that has joined, with an acceptor per rank.
class DataConnection : public ::testing::Test {
 protected:
  static constexpr Rank kSize = 3;

  void SetUp() override {
    for (Joined& one : join_on(engine_, world_of(kSize, fresh_unix_address()))) {
      ASSERT_TRUE(one.membership) << one.error->what();
      members_.push_back(std::move(*one.membership));
    }
  }
  void TearDown() override {
    members_.clear();
    EXPECT_EQ(open_descriptors(), before_);
  }

  /// Runs `scene(acceptors)` while all of them serve.
  template <class Scene>
  void run(Scene& scene) {
    auto whole = [&]() -> Task<> {
      std::array<DataAcceptor, kSize> acceptors = {DataAcceptor(members_[0]), DataAcceptor(members_[1]),
                                                   DataAcceptor(members_[2])};
      for (DataAcceptor& acceptor : acceptors)
        for (Rank peer = 0; peer < kSize; ++peer) acceptor.admit(peer, 0);
      TaskScope scope;
      for (DataAcceptor& acceptor : acceptors) scope.spawn(acceptor.serve());
      Task<> scene_with_deadline = with_deadline(std::chrono::seconds(20), scene(acceptors));
      const auto error = co_await error_of(std::move(scene_with_deadline));
      EXPECT_FALSE(error) << error->what();
      scope.cancel();
      co_await scope.join();
    };
    engine_.run(whole());
  }

  Engine engine_;
  const std::size_t before_ = open_descriptors();
  std::vector<Membership> members_;
};

using Acceptors = std::array<DataAcceptor, 3>;

TEST(LaneOfConnection, is_another_one_for_each) {
  std::set<Lane> all;
  for (Lane lane = 0; lane < kLanesOfGroup; ++lane) {
    EXPECT_EQ(lane_of_connection(lane, 0), lane);
    for (unsigned i = 0; i < kMostConnectionsOfLane; ++i) {
      EXPECT_LT(lane_of_connection(lane, i), kConnectionsOfGroup);
      all.insert(lane_of_connection(lane, i));
    }
  }
  EXPECT_EQ(all.size(), kConnectionsOfGroup);
}

TEST_F(DataConnection, every_pair_and_lane_gets_its_own) {
  std::array<std::array<std::array<Socket, kMostLanes>, kSize>, kSize> ends;
  auto open = [&](DataAcceptor& acceptor, Rank from, Rank to, Lane lane) -> Task<> {
    Socket calling = co_await connect_data(engine_, members_[from], to, joined(lane));
    Socket called = co_await acceptor.take(from, joined(lane));
    ends[from][to][lane] = std::move(calling);
    ends[to][from][lane] = std::move(called);
  };
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    std::vector<Task<>> opening;
    for (Rank from = 0; from < kSize; ++from)
      for (Rank to = 0; to < from; ++to)
        for (Lane lane = 0; lane < kMostLanes; ++lane) opening.push_back(open(acceptors[to], from, to, lane));
    co_await when_all(opening);
    for (Rank from = 0; from < kSize; ++from)
      for (Rank to = 0; to < from; ++to)
        for (Lane lane = 0; lane < kMostLanes; ++lane) {
          const std::array<unsigned, 3> label = {from, to, lane};
          std::array<unsigned, 3> seen{};
          co_await ends[from][to][lane].send(std::as_bytes(std::span(label)));
          co_await ends[to][from][lane].receive(std::as_writable_bytes(std::span(seen)));
          EXPECT_EQ(seen, label);
        }
  };
  run(scene);
}

TEST_F(DataConnection, whoever_takes_first_waits) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    auto later = [&]() -> Task<> {
      co_await engine_.sleep_for(Duration::zero());  // first() waits by then
      const Socket socket = co_await connect_data(engine_, members_[2], 1, joined(3));
    };
    auto first = [&]() -> Task<> {
      const Socket socket = co_await acceptors[1].take(2, joined(3));
      EXPECT_TRUE(socket.is_open());
    };
    co_await when_all(first(), later());
  };
  run(scene);
}

TEST_F(DataConnection, another_secret_and_another_incarnation_are_refused_and_named) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    const Secret kept = std::exchange(members_[2].secret, secret_of(9));
    const auto stranger = co_await error_of(connect_data(engine_, members_[2], 0, joined(0)));
    EXPECT_EQ(kind_of(stranger), "AuthFailed");
    EXPECT_EQ(stranger->culprit(), Rank{0});
    members_[2].secret = Secret::from_bytes(kept.bytes());

    members_[2].peers[0].incarnation ^= 1;
    const auto restarted = co_await error_of(connect_data(engine_, members_[2], 0, joined(0)));
    EXPECT_EQ(kind_of(restarted), "Mismatch");
    EXPECT_THAT(restarted->what(), HasSubstr("restarted"));
    members_[2].peers[0].incarnation ^= 1;

    Socket calling = co_await connect_data(engine_, members_[2], 0, joined(0));
    const Socket called = co_await acceptors[0].take(2, joined(0));
    EXPECT_TRUE(called.is_open()) << "the refused ones left no trace";
  };
  run(scene);
}

TEST_F(DataConnection, one_that_was_not_taken_is_replaced_by_a_newer_one) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    Socket older = co_await connect_data(engine_, members_[1], 0, joined(1));
    Socket newer = co_await connect_data(engine_, members_[1], 0, joined(1));
    constexpr std::array kByte = {std::byte{42}};
    std::array<std::byte, 1> seen{};
    const bool came = co_await older.receive(seen);
    EXPECT_FALSE(came) << "closed, since the newer one is there";
    Socket called = co_await acceptors[0].take(1, joined(1));
    co_await newer.send(kByte);
    co_await called.receive(seen);
    EXPECT_EQ(seen[0], kByte[0]);
  };
  run(scene);
}

TEST_F(DataConnection, a_peer_that_is_gone_is_named) {
  members_[0].data_listener = Listener();
  auto scene = [&](Acceptors&) -> Task<> {
    const auto error = co_await error_of(connect_data(engine_, members_[1], 0, joined(0)));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_EQ(error->culprit(), Rank{0});
    EXPECT_THAT(error->what(), HasSubstr("no data connection to rank 0 ("));
  };
  run(scene);
}

/// Waits until the other end has closed it.
Task<> expect_closed(Socket& calling) {
  std::array<std::byte, 1> nothing{};
  const bool came = co_await calling.receive(nothing);
  EXPECT_FALSE(came);
}

constexpr Path kOfGroup{.group = 7, .lane = kMessageLane};
constexpr Path kOnLane{.group = 7, .lane = 0};

TEST_F(DataConnection, of_a_group_that_is_over_is_refused_and_leaves_nothing) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    acceptors[0].admit(2, kOfGroup.group);
    acceptors[0].forget(2, kOfGroup.group);
    const std::size_t before = open_descriptors();
    const auto error = co_await error_of(connect_data(engine_, members_[2], 0, kOfGroup));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_EQ(error->culprit(), Rank{0});
    EXPECT_EQ(open_descriptors(), before);
  };
  run(scene);
}

TEST_F(DataConnection, of_a_group_that_is_over_is_none_of_the_next_group) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    constexpr Path kOfNext{.group = 8, .lane = kMessageLane};
    acceptors[0].begin_making(2);
    Socket late = co_await connect_data(engine_, members_[2], 0, kOfGroup);
    acceptors[0].admit(2, kOfNext.group);
    acceptors[0].end_making(2);
    co_await expect_closed(late);
    Socket calling = co_await connect_data(engine_, members_[2], 0, kOfNext);
    Socket called = co_await acceptors[0].take(2, kOfNext);
    constexpr std::array kByte = {std::byte{42}};
    std::array<std::byte, 1> seen{};
    co_await calling.send(kByte);
    co_await called.receive(seen);
    EXPECT_EQ(seen[0], kByte[0]);
  };
  run(scene);
}

/// The peer is through with making it, and this rank is not.
TEST_F(DataConnection, that_comes_before_its_group_is_made_here_is_kept_for_it) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    acceptors[0].begin_making(2);
    const Socket calling = co_await connect_data(engine_, members_[2], 0, kOfGroup);
    const Socket other_lane = co_await connect_data(engine_, members_[2], 0, kOnLane);
    co_await engine_.sleep_for(std::chrono::milliseconds(1));
    acceptors[0].admit(2, kOfGroup.group);
    acceptors[0].end_making(2);
    const Socket called = co_await acceptors[0].take(2, kOfGroup);
    EXPECT_TRUE(called.is_open());
    const Socket also_called = co_await acceptors[0].take(2, kOnLane);
    EXPECT_TRUE(also_called.is_open());
  };
  run(scene);
}

/// The making of a younger one has failed here, which the peer does not know yet.
TEST_F(DataConnection, of_a_group_that_is_being_made_does_not_give_way_to_one_that_is_not) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    acceptors[0].set_is_making([](Rank, GroupNumber group) { return group == kOfGroup.group; });
    acceptors[0].begin_making(2);
    std::vector<Socket> of_failed;
    const auto connect_lanes_of_failed = [&]() -> Task<> {
      for (Lane lane = 0; lane < kConnectionsOfGroup; ++lane) {
        const Path path{.group = kOfGroup.group + 1, .lane = lane};
        Socket socket = co_await connect_data(engine_, members_[2], 0, path);
        of_failed.push_back(std::move(socket));
      }
    };
    co_await connect_lanes_of_failed();
    const Socket calling = co_await connect_data(engine_, members_[2], 0, kOfGroup);
    co_await connect_lanes_of_failed();
    co_await engine_.sleep_for(std::chrono::milliseconds(1));
    acceptors[0].admit(2, kOfGroup.group);
    acceptors[0].end_making(2);
    const Socket called = co_await acceptors[0].take(2, kOfGroup);
    EXPECT_TRUE(called.is_open());
  };
  run(scene);
}

TEST_F(DataConnection, of_groups_that_are_never_made_are_closed_and_few_at_a_time) {
  auto scene = [&](Acceptors& acceptors) -> Task<> {
    const std::size_t before = open_descriptors();
    acceptors[0].begin_making(2);
    std::vector<Socket> calling;
    for (GroupNumber group = 1; group <= kConnectionsOfGroup + 3; ++group) {
      const Path path{.group = group, .lane = 0};
      Socket one = co_await connect_data(engine_, members_[2], 0, path);
      calling.push_back(std::move(one));
    }
    for (std::size_t oldest = 0; oldest < 3; ++oldest) co_await expect_closed(calling[oldest]);
    acceptors[0].end_making(2);
    for (Socket& socket : calling) co_await expect_closed(socket);
    calling.clear();
    EXPECT_EQ(open_descriptors(), before);
  };
  run(scene);
}

/// Amid a call that fails because of another rank.
TEST_F(DataConnection, what_ends_a_call_is_blamed_on_nobody_else) {
  members_[0].data_listener = Listener();
  auto scene = [&](Acceptors&) -> Task<> {
    DataConnections connections(engine_, members_[2], nullptr, nullptr);
    CancelScope scope;
    std::optional<Error> error;
    auto call = [&]() -> Task<> {
      const std::optional<Error> ended = co_await error_of(with_scope(scope, connections.call(0, 0)));
      error = ended;
    };
    auto cancel = [&]() -> Task<> {
      co_await engine_.sleep_for(std::chrono::milliseconds(1));
      scope.cancel(Error(ErrorKind::PeerDied, "rank 1 ended").with_culprit(1));
    };
    co_await when_all(call(), cancel());
    EXPECT_EQ(kind_of(error), "PeerDied");
    EXPECT_EQ(error->culprit(), Rank{1});
  };
  run(scene);
}

}  // namespace
}  // namespace cohort::data_connection_test
