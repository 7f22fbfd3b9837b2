// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join.h>

#include <cohort/engine/when_all.h>
#include <cohort/net/auth/authenticated_socket.h>
#include <cohort/net/control_graph.h>
#include <cohort/net/join/control_mesh.h>
#include <cohort/net/join/join_frame.h>
#include <cohort/net/join/member.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_engine.h>

namespace cohort::join_graph_test {
namespace {

using ::cohort::test::exchange_ranks;
using ::cohort::test::fresh_tcp_address;
using ::cohort::test::give_secret;
using ::cohort::test::join_into;
using ::cohort::test::join_on;
using ::cohort::test::join_on_threads;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::cohort::test::world_of;
using ::testing::HasSubstr;

/// So many ranks on each host, placed one host after the other.
std::vector<JoinOptions> hosts_of(Rank size, Rank ranks_per_host) {
  std::vector<JoinOptions> world = world_of(size, fresh_tcp_address());
  give_secret(world);
  for (JoinOptions& options : world) {
    options.host_id = fmt::format("host {}", options.rank / ranks_per_host);
    options.timeout = std::chrono::minutes(1);
  }
  return world;
}

/// All have joined, and know the same of each other.
void expect_one_table(const std::vector<Joined>& joined) {
  for (const Joined& one : joined) ASSERT_TRUE(one.membership) << one.error->what();
  const Membership& first = *joined[0].membership;
  for (const Joined& one : joined)
    for (Rank rank = 0; rank < first.size; ++rank) {
      const PeerInfo& info = one.membership->peers[rank];
      ASSERT_EQ(info.rank, rank);
      ASSERT_EQ(info.incarnation, first.peers[rank].incarnation);
      ASSERT_EQ(info.incarnation, joined[rank].membership->incarnation);
      ASSERT_EQ(info.data_address.to_string(), first.peers[rank].data_address.to_string());
      ASSERT_EQ(info.host_id, first.peers[rank].host_id);
    }
}

std::vector<Rank> connected(const Membership& membership) {
  std::vector<Rank> ranks;
  for (Rank peer = 0; peer < membership.size; ++peer)
    if (membership.control[peer].is_open()) ranks.push_back(peer);
  return ranks;
}

void expect_all_answer(Engine& engine, std::vector<Joined>& joined) {
  auto everybody = [&]() -> Task<> {
    std::vector<Task<>> ranks;
    for (Joined& one : joined) ranks.push_back(exchange_ranks(*one.membership));
    co_await when_all(ranks);
  };
  engine.run(everybody());
}

void expect_neighbours_join(Rank size, Rank ranks_per_host,
                            std::optional<ControlLinks> links = ControlLinks::neighbours) {
  SCOPED_TRACE(fmt::format("{} ranks, {} on a host", size, ranks_per_host));
  test::WorldEngine engine(20);
  std::vector<Joined> joined = join_on(engine, hosts_of(size, ranks_per_host), links);
  expect_one_table(joined);
  if (::testing::Test::HasFailure()) return;
  const ControlGraph graph = ControlGraph::of(joined[0].membership->peers);
  for (const Joined& one : joined) {
    const Membership& membership = *one.membership;
    EXPECT_EQ(connected(membership), graph.neighbours_of(membership.rank));
    EXPECT_EQ(membership.is_sparse(), !graph.is_complete());
    if (membership.is_sparse()) {
      EXPECT_EQ(membership.neighbours, graph.neighbours_of(membership.rank));
    }
    for (const Rank peer : connected(membership))
      EXPECT_EQ(membership.control[peer].local_address().is_unix(), membership.shares_host(peer));
  }
  expect_all_answer(engine, joined);
}

TEST(JoinGraph, ranks_of_many_hosts_may_connect_with_their_neighbours_alone) {
  expect_neighbours_join(18, 1);
  expect_neighbours_join(64, 1);
  expect_neighbours_join(100, 3);
  expect_neighbours_join(256, 1);
}

TEST(JoinGraph, few_ranks_are_all_neighbours) {
  for (const Rank size : {2, 5, 17}) expect_neighbours_join(size, 1);
}

TEST(JoinGraph, more_than_a_hundred_ranks_connect_with_their_neighbours_alone) {
  expect_neighbours_join(131, 2, std::nullopt);
}

TEST(JoinGraph, ranks_that_are_threads_connect_over_the_kernel_s_sockets) {
  const auto check = [](Engine& engine, Joined& joined) {
    ASSERT_TRUE(joined.membership) << joined.error->what();
    Membership& membership = *joined.membership;
    EXPECT_EQ(connected(membership), ControlGraph::of(membership.peers).neighbours_of(membership.rank));
    engine.run(exchange_ranks(membership));
  };
  join_on_threads(hosts_of(24, 1), check, ControlLinks::neighbours);
}

/// A rank that hears what rank 0 tells, and then does something else than what comes next.
class JoinGraphGoesWrong : public ::testing::Test {
 protected:
  using Deed = std::function<Task<>(JoinState& state, Socket& rank_0, std::vector<std::byte>& records)>;

  std::vector<Joined> join_with(Rank size, const std::map<Rank, Deed>& deeds, Duration timeout) {
    std::vector<JoinOptions> world = hosts_of(size, 1);
    for (JoinOptions& options : world) options.timeout = timeout;
    return join_with(std::move(world), deeds);
  }

  std::vector<Joined> join_with(std::vector<JoinOptions> world, const std::map<Rank, Deed>& deeds) {
    std::vector<Joined> joined(world.size());
    auto everybody = [&]() -> Task<> {
      std::vector<Task<>> ranks;
      for (Rank rank = 0; rank < joined.size(); ++rank)
        ranks.push_back(deeds.contains(rank) ? go_wrong(world[rank], deeds.at(rank))
                                             : join_into(engine_, std::move(world[rank]), joined[rank],
                                                         ControlLinks::neighbours));
      co_await when_all(ranks);
    };
    engine_.run(everybody());
    return joined;
  }

  /// But for those who went wrong.
  static void expect_all_told(const std::vector<Joined>& joined, std::set<Rank> wrong, std::string_view kind,
                              Rank culprit, std::string_view text) {
    for (Rank rank = 0; rank < joined.size(); ++rank) {
      if (wrong.contains(rank)) continue;
      EXPECT_EQ(kind_of(joined[rank].error), kind) << rank;
      if (!joined[rank].error) continue;
      EXPECT_EQ(joined[rank].error->culprit(), culprit) << rank;
      EXPECT_THAT(joined[rank].error->what(), HasSubstr(std::string(text))) << rank;
    }
  }

  /// As long as it takes until the neighbours have called.
  Task<> take_calls(ControlMesh& mesh) {
    Task<> connecting = with_deadline(std::chrono::seconds(5), mesh.connect());
    try {
      co_await connecting;
    } catch (const Error&) {  // not all call
    }
  }

  /// Until all others have given up.
  Task<> connect_for_a_while(ControlMesh& mesh) {
    Task<> connecting = with_deadline(std::chrono::seconds(30), mesh.connect());
    try {
      co_await connecting;
    } catch (const Error&) {  // not all call
    }
    co_await engine_.sleep_for(std::chrono::minutes(1));
  }

  test::WorldEngine engine_;
  std::map<Rank, Duration> reads_late_;  ///< the records of the table, so long after its head

 private:
  Task<> go_wrong(JoinOptions options, const Deed& deed) {
    JoinState state(engine_, options);
    state.membership.secret = Secret::from_bytes(options.secret->bytes());
    std::optional<Secret> secret = Secret::from_bytes(options.secret->bytes());
    Socket rank_0 = co_await call_rank_0(state, secret, state.deadline);
    state.listen(rank_0.local_address());
    const JoinFrameBytes introduction = encode_introduction(state.membership.self(), std::chrono::minutes(1));
    co_await rank_0.send(introduction);
    JoinFrameBytes bytes{};
    co_await rank_0.receive(bytes);
    const JoinFrame head = decode_frame(bytes, "rank 0");
    const bool is_whole = head.kind == JoinFrame::Kind::table;
    std::vector<std::byte> records((is_whole ? options.size : head.records) * kPeerRecordBytes);
    if (reads_late_.contains(options.rank)) co_await engine_.sleep_for(reads_late_.at(options.rank));
    co_await rank_0.receive(records);
    state.links = head.links;
    for (std::size_t at = 0; at < records.size(); at += kPeerRecordBytes) {
      const auto record = std::span(records).subspan(at).first<kPeerRecordBytes>();
      const PeerInfo info = decode_record(record, "rank 0");
      state.membership.peers[info.rank] = info;
      if (!is_whole) state.neighbours.push_back(info.rank);
    }
    if (is_whole) state.neighbours = ControlGraph::of(state.membership.peers).neighbours_of(options.rank);
    co_await deed(state, rank_0, records);
  }
};

class ParentGoesWrong : public JoinGraphGoesWrong {
 protected:
  static constexpr Rank kSize = 24;
  static constexpr Rank kParent = 1;
  static constexpr Rank kChild = 3;

  std::vector<Joined> join_with(const Deed& deed, Duration timeout) {
    return JoinGraphGoesWrong::join_with(kSize, {{kParent, deed}}, timeout);
  }
};

/// Of a table that is more than a connection holds.
class ChildGoesWrong : public JoinGraphGoesWrong {
 protected:
  static constexpr Rank kSize = 256;
  static constexpr Rank kParent = 1;
  static constexpr Rank kChild = 3;

  std::vector<Joined> join_with(const Deed& deed, Duration timeout) {
    return JoinGraphGoesWrong::join_with(kSize, {{kChild, deed}}, timeout);
  }

  /// Calls its parent as a member does.
  Task<Socket> call_parent(JoinState& state) {
    const PeerInfo& parent = state.membership.peers[kParent];
    const Callee callee{parent.data_address.to_string(), kParent, parent.incarnation};
    Socket socket = co_await Socket::connect(engine_, parent.data_address);
    const Identity mine = state.identity_for(Purpose::control);
    co_await authenticate_as_client(socket, state.membership.secret, mine, callee);
    co_return socket;
  }
};

TEST_F(ChildGoesWrong, one_that_does_not_take_the_table_is_named_and_not_who_waits_to_pass_it_on) {
  const Deed is_silent = [this](JoinState& state, Socket&, std::vector<std::byte>&) -> Task<> {
    state.links = ControlLinks::all;  // neither hears the table nor passes it on
    ControlMesh mesh(state);
    co_await connect_for_a_while(mesh);
  };
  ::testing::internal::CaptureStderr();
  const std::vector<Joined> joined = join_with(is_silent, std::chrono::seconds(20));
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr(
          "all 256 ranks are here, but after 10.0 s not all have reached each other: nothing said by 3; "
          "rank 1 waits for 3, rank 5 waits for 1"));
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kChild) continue;
    EXPECT_EQ(kind_of(joined[rank].error), "PeerSilent") << rank;
    EXPECT_EQ(joined[rank].error ? joined[rank].error->culprit() : std::nullopt, kChild) << rank;
  }
  ASSERT_TRUE(joined[0].error);
  EXPECT_THAT(joined[0].error->what(), HasSubstr("rank 3 did not answer: stopped, or hung"));
  EXPECT_THAT(joined[0].error->what(), HasSubstr("rank 1 waits for 3"));
}

TEST_F(ChildGoesWrong, one_that_comes_again_amid_the_table_gets_all_of_it) {
  std::vector<std::byte> got;
  const Deed comes_again = [&](JoinState& state, Socket&, std::vector<std::byte>&) -> Task<> {
    state.links = ControlLinks::all;
    {
      ControlMesh mesh(state);
      co_await take_calls(mesh);
    }
    std::vector<std::byte> records(kSize * kPeerRecordBytes);
    co_await state.membership.control[kParent].receive(std::span(records).first(kPeerRecordBytes));
    Socket again = co_await call_parent(state);
    const bool came = co_await again.receive(records);
    if (came) got = std::move(records);
  };
  const std::vector<Joined> joined = join_with(comes_again, std::chrono::seconds(20));
  ASSERT_EQ(got.size(), kSize * kPeerRecordBytes);
  for (Rank rank = 0; rank < kSize; ++rank) {
    const auto record = std::span(got).subspan(rank * kPeerRecordBytes).first<kPeerRecordBytes>();
    EXPECT_EQ(decode_record(record, "the parent").rank, rank);
  }
  EXPECT_EQ(kind_of(joined[0].error), "PeerDied");
}

TEST_F(ChildGoesWrong, one_that_lost_its_connection_gets_the_table_though_it_has_been_sent) {
  constexpr Rank kFew = 24;  // whose table is soon in the connection
  std::vector<std::byte> got;
  const Deed comes_late = [&](JoinState& state, Socket&, std::vector<std::byte>&) -> Task<> {
    state.links = ControlLinks::all;
    {
      ControlMesh mesh(state);
      co_await take_calls(mesh);
    }
    co_await engine_.sleep_for(std::chrono::seconds(10));
    state.membership.control[kParent] = Socket();
    Socket again = co_await call_parent(state);
    std::vector<std::byte> records(kFew * kPeerRecordBytes);
    const bool came = co_await again.receive(records);
    if (came) got = std::move(records);
  };
  const auto joined = JoinGraphGoesWrong::join_with(kFew, {{kChild, comes_late}}, std::chrono::minutes(1));
  ASSERT_EQ(got.size(), kFew * kPeerRecordBytes);
  expect_all_told(joined, {kChild}, "PeerDied", kChild, "died while the ranks were connecting");
}

TEST_F(ParentGoesWrong, one_that_dies_is_named_on_all_ranks) {
  const Deed dies = [](JoinState&, Socket&, std::vector<std::byte>&) -> Task<> { co_return; };
  const std::vector<Joined> joined = join_with(dies, std::chrono::minutes(1));
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kParent) continue;
    EXPECT_EQ(kind_of(joined[rank].error), "PeerDied");
    EXPECT_EQ(joined[rank].error ? joined[rank].error->culprit() : std::nullopt, kParent) << rank;
  }
}

TEST_F(ParentGoesWrong, one_that_gives_up_amid_passing_the_table_on_is_heard_on_all_ranks) {
  const Deed gives_up = [this](JoinState& state, Socket& rank_0, std::vector<std::byte>& records) -> Task<> {
    state.links = ControlLinks::all;  // passes nothing on by itself
    ControlMesh mesh(state);
    co_await take_calls(mesh);
    const std::span<const std::byte> part = std::span(records).first(records.size() / 2);
    co_await state.membership.control[kChild].send(part);
    const Error cause(ErrorKind::ResourceLimit, "its memory is full");
    EXPECT_TRUE(rank_0.try_send(encode_refusal(cause, kParent)));
  };
  const std::vector<Joined> joined = join_with(gives_up, std::chrono::minutes(1));
  expect_all_told(joined, {kParent}, "ResourceLimit", kParent, "reports: its memory is full");
}

TEST_F(ParentGoesWrong, a_connection_that_is_reset_amid_the_table_is_made_once_more) {
  const Deed resets = [this](JoinState& state, Socket& rank_0, std::vector<std::byte>& records) -> Task<> {
    state.links = ControlLinks::all;
    {
      ControlMesh mesh(state);
      co_await take_calls(mesh);
    }
    const std::span<const std::byte> part = std::span(records).first(records.size() / 2);
    co_await state.membership.control[kChild].send(part);
    state.membership.control[kChild] = Socket();
    state.links = ControlLinks::neighbours;
    ControlMesh mesh(state, records);
    Task<> connecting = with_deadline(std::chrono::minutes(1), mesh.connect());
    co_await connecting;
    const JoinFrameBytes ready = encode_signal(JoinFrame::Kind::ready);
    co_await rank_0.send(ready);
    co_await engine_.sleep_for(std::chrono::seconds(10));
  };
  const std::vector<Joined> joined = join_with(resets, std::chrono::minutes(1));
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kParent) continue;
    ASSERT_TRUE(joined[rank].membership) << rank << ": " << joined[rank].error->what();
    EXPECT_EQ(joined[rank].membership->peers[kSize - 1].incarnation,
              joined[kSize - 1].membership->incarnation);
  }
}

TEST_F(ParentGoesWrong, one_that_connects_and_falls_silent_is_named_at_the_deadline) {
  const Deed is_silent = [this](JoinState& state, Socket&, std::vector<std::byte>&) -> Task<> {
    state.links = ControlLinks::all;  // passes nothing on
    ControlMesh mesh(state);
    co_await connect_for_a_while(mesh);
  };
  const std::vector<Joined> joined = join_with(is_silent, std::chrono::seconds(20));
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kParent) continue;
    EXPECT_EQ(kind_of(joined[rank].error), "PeerSilent");
    EXPECT_EQ(joined[rank].error ? joined[rank].error->culprit() : std::nullopt, kParent) << rank;
    if (joined[rank].error) {
      EXPECT_THAT(joined[rank].error->what(), HasSubstr("rank 1 did not answer: stopped, or hung"));
    }
  }
}

TEST_F(ParentGoesWrong, one_that_tells_another_table_than_rank_0_is_named_on_all_ranks) {
  const Deed lies = [this](JoinState& state, Socket&, std::vector<std::byte>& records) -> Task<> {
    PeerInfo child = state.membership.peers[kChild];
    child.incarnation ^= 1;
    encode_record(child, std::span(records).subspan(kChild * kPeerRecordBytes).first<kPeerRecordBytes>());
    ControlMesh mesh(state, records);
    co_await connect_for_a_while(mesh);
  };
  const std::vector<Joined> joined = join_with(lies, std::chrono::minutes(1));
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kParent) continue;
    EXPECT_EQ(kind_of(joined[rank].error), "ProtocolError") << rank;
    EXPECT_EQ(joined[rank].error ? joined[rank].error->culprit() : std::nullopt, kParent) << rank;
    if (joined[rank].error) {
      EXPECT_THAT(joined[rank].error->what(), HasSubstr("where rank 3 belongs in the table"));
    }
  }
}

/// A member that takes the table slowly, while somebody else ends the joining.
class AmidTheTable : public JoinGraphGoesWrong {
 protected:
  static constexpr Rank kSlow = 2;  ///< rank 0 tells it all
  static constexpr Rank kCulprit = 7;
  static constexpr Duration kLate = std::chrono::seconds(1);  ///< longer than rank 0 waits for others

  Deed gives_up() {
    return [this](JoinState&, Socket& rank_0, std::vector<std::byte>&) -> Task<> {
      const Error cause(ErrorKind::ResourceLimit, "its memory is full");
      const JoinFrameBytes bytes = encode_refusal(cause, kCulprit);
      co_await rank_0.send(bytes);
      co_await engine_.sleep_for(std::chrono::milliseconds(1));  // until it is read
    };
  }

  /// What comes behind the table.
  Deed hears_why(Joined& outcome) {
    return [&outcome](JoinState&, Socket& rank_0, std::vector<std::byte>&) -> Task<> {
      JoinFrameBytes bytes{};
      const bool came = co_await rank_0.receive(bytes);
      if (came) outcome.error = decode_frame(bytes, "rank 0").refusal;
    };
  }

  void expect_heard_on_all_ranks(Rank size) {
    SCOPED_TRACE(size);
    reads_late_ = {{kSlow, kLate}};
    Joined slow;
    const std::map<Rank, Deed> deeds = {{kSlow, hears_why(slow)}, {kCulprit, gives_up()}};
    std::vector<Joined> joined = join_with(size, deeds, std::chrono::minutes(1));
    joined[kSlow].error = slow.error;
    expect_all_told(joined, {kCulprit}, "ResourceLimit", kCulprit, "reports: its memory is full");
  }
};

TEST_F(AmidTheTable, a_refusal_is_heard_behind_it) { expect_heard_on_all_ranks(256); }

TEST_F(AmidTheTable, a_refusal_is_heard_though_the_table_has_filled_the_connection) {
  const std::size_t room = world::Settings().buffer_bytes;
  const auto size = static_cast<Rank>((room - kJoinFrameBytes) / kPeerRecordBytes + 1);
  const std::size_t bytes = size * kPeerRecordBytes;  // the head is read soon
  ASSERT_LE(bytes, room);
  ASSERT_GT(bytes + kJoinFrameBytes, room) << "a refusal fits behind it";
  expect_heard_on_all_ranks(size);
}

TEST_F(AmidTheTable, the_deadline_is_heard_behind_it) {
  std::vector<JoinOptions> world = hosts_of(256, 1);
  world[0].timeout = std::chrono::seconds(5);
  reads_late_ = {{kSlow, world[0].timeout + kLate}};
  Joined slow;
  std::vector<Joined> joined = join_with(std::move(world), {{kSlow, hears_why(slow)}});
  joined[kSlow].error = slow.error;
  expect_all_told(joined, {}, "PeerSilent", kSlow, "rank 2 did not answer: stopped, or hung");
}

}  // namespace
}  // namespace cohort::join_graph_test
