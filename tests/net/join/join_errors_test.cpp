// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join.h>

#include <cohort/engine/when_all.h>
#include <cohort/net/auth/authenticated_socket.h>
#include <cohort/net/auth/secret_handover.h>
#include <cohort/net/join/join_frame.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_engine.h>

namespace cohort::join_errors_test {
namespace {

using ::cohort::test::fresh_tcp_address;
using ::cohort::test::fresh_unix_address;
using ::cohort::test::give_secret;
using ::cohort::test::join_into;
using ::cohort::test::join_on;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::cohort::test::open_descriptors;
using ::cohort::test::secret_of;
using ::cohort::test::world_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Duration kShort = std::chrono::milliseconds(300);

void set_timeout(std::vector<JoinOptions>& world, Duration timeout) {
  for (JoinOptions& options : world) options.timeout = timeout;
}

std::string text_of(const Joined& joined) { return joined.error ? joined.error->what() : "joined"; }

void expect_error(const Joined& joined, ErrorKind kind, std::optional<Rank> culprit) {
  EXPECT_EQ(kind_of(joined.error), to_string(kind)) << text_of(joined);
  EXPECT_EQ(joined.error ? joined.error->culprit() : std::nullopt, culprit) << text_of(joined);
}

/// Descriptors are back where they were, whatever happened.
class JoinErrors : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(open_descriptors(), before_); }

  /// Comes to rank 0 as that rank with the secret of seed 1, and behaves otherwise than a member does.
  Task<Socket> come_as(const JoinOptions& options, Duration patience = std::chrono::minutes(1)) {
    Socket socket = co_await Socket::connect_until(engine_, Address::parse(options.address), kNever);
    std::optional<Secret> secret = secret_of(1);
    co_await obtain_secret(socket, secret, options.rank, options.address, "the test");
    Identity identity;
    identity.job = job_id(options.name);
    identity.rank = options.rank;
    identity.world = options.size;
    identity.incarnation = random_incarnation();
    const Callee callee{options.address, Rank{0}, std::nullopt};
    co_await authenticate_as_client(socket, *secret, identity, callee);
    PeerInfo info;
    info.rank = options.rank;
    info.incarnation = identity.incarnation;
    info.host = "odd one";
    const JoinFrameBytes introduction = encode_introduction(info, patience);
    co_await socket.send(introduction);
    co_return socket;
  }

  test::WorldEngine engine_;
  const std::size_t before_ = open_descriptors();
};

// Addresses.

TEST_F(JoinErrors, an_address_of_another_host_is_told_to_rank_0_as_that) {
  Engine engine;  // only the kernel knows which are this host's; this one, of RFC 5737, is nobody's
  std::vector<JoinOptions> world = world_of(2, "192.0.2.1:5555");
  give_secret(world, 1);
  Joined joined;
  engine.run(join_into(engine, std::move(world[0]), joined));
  expect_error(joined, ErrorKind::InvalidArgument, std::nullopt);
  EXPECT_THAT(text_of(joined), HasSubstr("listening at 192.0.2.1:5555 (it is no address of this host"));
}

// Secrets.

TEST_F(JoinErrors, another_secret_is_told_to_its_rank_and_named_to_those_who_wait_for_it) {
  std::vector<JoinOptions> world = world_of(4, fresh_tcp_address());
  give_secret(world, 1);
  world[2].secret = secret_of(2);
  world[2].secret_source = "COHORT_SECRET_FILE=/etc/other";
  const std::string address = world[0].address;
  set_timeout(world, kShort);
  const std::vector<Joined> joined = join_on(engine_, std::move(world));
  expect_error(joined[2], ErrorKind::AuthFailed, 0);
  EXPECT_THAT(text_of(joined[2]), AllOf(HasSubstr("rank 0 at " + address + " uses another secret"),
                                        HasSubstr("COHORT_SECRET_FILE=/etc/other")));
  for (const Rank rank : {0, 1, 3}) {
    expect_error(joined[rank], ErrorKind::MissingRanks, 2);
    EXPECT_THAT(text_of(joined[rank]), HasSubstr("rank 2 of 4 is missing"));
  }
  EXPECT_THAT(text_of(joined[0]), HasSubstr("a process claiming rank 2 (pid"));
  EXPECT_THAT(text_of(joined[0]), HasSubstr("failed authentication"));
}

TEST_F(JoinErrors, a_chosen_secret_is_never_handed_over) {
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  world[0].secret = secret_of(1);
  set_timeout(world, kShort);
  const std::vector<Joined> joined = join_on(engine_, std::move(world));
  expect_error(joined[1], ErrorKind::AuthFailed, 0);
  EXPECT_THAT(text_of(joined[1]), HasSubstr("has a secret and this process (rank 1) has none"));
  expect_error(joined[0], ErrorKind::MissingRanks, 1);
  EXPECT_THAT(text_of(joined[0]), HasSubstr("calls itself rank 1"));
}

TEST_F(JoinErrors, a_rank_with_a_secret_does_not_trust_a_rank_0_without_one) {
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  world[1].secret = secret_of(1);
  set_timeout(world, kShort);
  const std::vector<Joined> joined = join_on(engine_, std::move(world));
  expect_error(joined[1], ErrorKind::AuthFailed, 0);
  EXPECT_THAT(text_of(joined[1]), HasSubstr("started without one"));
  expect_error(joined[0], ErrorKind::MissingRanks, 1);
}

TEST_F(JoinErrors, tcp_without_a_secret_is_refused_before_anything_listens) {
  for (const char* address : {"127.0.0.1:1", "192.0.2.1:4711"}) {
    const std::vector<Joined> joined = join_on(engine_, world_of(2, address));
    for (const Joined& one : joined) {
      expect_error(one, ErrorKind::AuthFailed, std::nullopt);
      EXPECT_THAT(text_of(one), AllOf(HasSubstr("COHORT_SECRET_FILE"), HasSubstr("COHORT_AUTH=none")));
    }
  }
}

TEST_F(JoinErrors, tcp_without_a_secret_works_where_it_is_asked_for) {
  std::vector<JoinOptions> world = world_of(2, fresh_tcp_address());
  for (JoinOptions& options : world) options.is_unauthenticated = true;
  for (const Joined& one : join_on(engine_, std::move(world))) EXPECT_TRUE(one.membership) << text_of(one);
}

// Claims.

TEST_F(JoinErrors, another_world_size_ends_the_joining_of_all_at_once) {
  for (const Rank said : {3, 5}) {
    std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
    world[2].size = said;
    const std::vector<Joined> joined = join_on(engine_, std::move(world));
    for (const Rank rank : {0, 1, 3}) expect_error(joined[rank], ErrorKind::WorldSize, 2);
    expect_error(joined[2], ErrorKind::WorldSize, 0);
    for (const Joined& one : joined)
      EXPECT_THAT(text_of(one), AllOf(HasSubstr(std::to_string(said)), HasSubstr("4"), HasSubstr("rank 2")));
  }
}

TEST_F(JoinErrors, a_rank_outside_of_the_world_of_the_others_is_named) {
  std::vector<JoinOptions> world = world_of(3, fresh_unix_address());
  world[2].rank = 7;
  world[2].size = 8;
  const std::vector<Joined> joined = join_on(engine_, std::move(world));
  for (const Rank rank : {0, 1}) expect_error(joined[rank], ErrorKind::WorldSize, 7);
}

TEST_F(JoinErrors, ranks_that_come_after_the_failure_are_told_too) {
  std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
  world[2].size = 5;
  std::vector<Joined> joined(world.size());
  auto come = [&](Rank rank) -> Task<> {
    co_await engine_.sleep_for(std::chrono::milliseconds(40) * rank);
    co_await join_into(engine_, std::move(world[rank]), joined[rank]);
  };
  auto everybody = [&]() -> Task<> {
    std::vector<Task<>> ranks;
    for (Rank rank = 0; rank < 4; ++rank) ranks.push_back(come(rank));
    co_await when_all(ranks);
  };
  engine_.run(everybody());
  for (const Rank rank : {0, 1, 3}) expect_error(joined[rank], ErrorKind::WorldSize, 2);
}

TEST_F(JoinErrors, two_processes_with_one_rank_are_both_named_to_all) {
  for (const bool by_tcp : {false, true}) {
    std::vector<JoinOptions> world = world_of(4, by_tcp ? fresh_tcp_address() : fresh_unix_address());
    give_secret(world);
    world[3].rank = 2;
    const std::vector<Joined> joined = join_on(engine_, std::move(world));
    for (const Joined& one : joined) {
      expect_error(one, ErrorKind::DuplicateRank, 2);
      EXPECT_THAT(text_of(one), HasSubstr("two processes claim rank 2: rank 2 ("));
    }
  }
}

TEST_F(JoinErrors, another_rank_0_is_told_who_holds_the_address_and_disturbs_nobody) {
  for (const Rank said : {3, 2}) {
    std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
    for (JoinOptions& options : world) options.size = 3;
    world[3].rank = 0;
    world[3].size = said;
    std::vector<Joined> joined(world.size());
    auto come = [&](std::size_t index, Duration delay) -> Task<> {
      co_await engine_.sleep_for(delay);
      co_await join_into(engine_, std::move(world[index]), joined[index]);
    };
    auto everybody = [&]() -> Task<> {
      co_await when_all(come(0, Duration::zero()), come(1, kShort), come(2, std::chrono::seconds(5)),
                        come(3, kShort));
    };
    engine_.run(everybody());
    for (const Rank rank : {0, 1, 2}) EXPECT_TRUE(joined[rank].membership) << text_of(joined[rank]);
    expect_error(joined[3], said == 3 ? ErrorKind::DuplicateRank : ErrorKind::WorldSize, 0);
    EXPECT_THAT(text_of(joined[3]), AllOf(HasSubstr("another job is meeting at unix:"), HasSubstr("(pid"),
                                          HasSubstr("COHORT_NAME or a COHORT_ADDR")));
  }
}

TEST_F(JoinErrors, another_communicator_at_the_same_address_is_a_mismatch) {
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  world[1].name = "other";
  set_timeout(world, kShort);
  const std::vector<Joined> joined = join_on(engine_, std::move(world));
  expect_error(joined[1], ErrorKind::Mismatch, 0);
  expect_error(joined[0], ErrorKind::MissingRanks, 1);
}

TEST_F(JoinErrors, a_rank_that_is_left_of_an_earlier_start_takes_nobodys_place) {
  std::vector<JoinOptions> world = world_of(3, fresh_tcp_address());
  give_secret(world);
  world.push_back(std::move(world_of(3, world[0].address)[1]));
  world[3].secret = secret_of(1);
  for (JoinOptions& options : world) options.job = "second start";
  world[3].job = "first start";
  std::vector<Joined> joined(world.size());
  auto come = [&](std::size_t index, Duration delay) -> Task<> {
    co_await engine_.sleep_for(delay);
    co_await join_into(engine_, std::move(world[index]), joined[index]);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(come(0, kShort), come(1, 2 * kShort), come(2, kShort), come(3, Duration::zero()));
  };
  engine_.run(everybody());
  for (const Rank rank : {0, 1, 2}) EXPECT_TRUE(joined[rank].membership) << text_of(joined[rank]);
  expect_error(joined[3], ErrorKind::Mismatch, 0);
}

// Who is not there.

TEST_F(JoinErrors, missing_ranks_are_listed_to_all_who_came) {
  std::vector<JoinOptions> world = world_of(8, fresh_unix_address());
  world.erase(world.begin() + 6);
  world.erase(world.begin() + 2, world.begin() + 5);  // 2, 3, 4 and 6
  set_timeout(world, kShort);
  const std::vector<Joined> joined = join_on(engine_, std::move(world));
  for (const Joined& one : joined) {
    expect_error(one, ErrorKind::MissingRanks, 2);
    EXPECT_THAT(text_of(one), AllOf(HasSubstr("ranks 2-4, 6 of 8 are missing"), HasSubstr("here: rank 0 (")));
  }
}

TEST_F(JoinErrors, the_shortest_patience_ends_it_for_all_with_one_cause) {
  std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
  world.pop_back();
  world[1].timeout = kShort;
  for (const Joined& one : join_on(engine_, std::move(world))) expect_error(one, ErrorKind::MissingRanks, 3);
}

TEST_F(JoinErrors, a_restarted_rank_hides_nobodys_deadline) {
  std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
  give_secret(world);
  world[2].timeout = 2 * kShort;
  std::vector<Joined> joined(3);
  auto rank_1_is_restarted = [&]() -> Task<> {
    {
      const Socket first = co_await come_as(world[1], kShort);
      co_await engine_.sleep_for(kShort / 2);  // until rank 2 has come
    }
    co_await join_into(engine_, std::move(world[1]), joined[1]);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine_, std::move(world[0]), joined[0]), rank_1_is_restarted(),
                      join_into(engine_, std::move(world[2]), joined[2]));
  };
  const TimePoint began = engine_.now();
  engine_.run(everybody());
  EXPECT_LT(engine_.now() - began, 4 * kShort) << "as soon as rank 2 loses patience";
  for (const Joined& one : joined) expect_error(one, ErrorKind::MissingRanks, 3);
}

TEST_F(JoinErrors, strangers_leave_room_for_what_is_told_of_ranks) {
  std::vector<JoinOptions> world = world_of(3, fresh_unix_address());
  give_secret(world);
  world[0].timeout = 2 * kShort;
  Joined joined;
  auto stranger = [&](std::uint32_t process) -> Task<> {
    Socket socket = co_await Socket::connect_until(engine_, Address::parse(world[1].address), kNever);
    std::optional<Secret> secret = secret_of(2);
    co_await obtain_secret(socket, secret, 1, world[1].address, "the test");
    Identity identity;
    identity.job = job_id(world[1].name);
    identity.rank = 1;
    identity.world = 3;
    identity.pid = process;
    const Callee callee{world[1].address, Rank{0}, std::nullopt};
    const auto error = co_await test::error_of(authenticate_as_client(socket, *secret, identity, callee));
    EXPECT_EQ(kind_of(error), "AuthFailed");
  };
  constexpr std::uint32_t kStrangers = 20;
  auto others = [&]() -> Task<> {
    for (std::uint32_t process = 1; process <= kStrangers; ++process) co_await stranger(process);
    Socket member = co_await come_as(world[2]);
    const JoinFrameBytes goodbye = encode_refusal(Error(ErrorKind::SystemError, "its disk is full"), 2);
    co_await member.send(goodbye);
    std::array<std::byte, 1> byte{};
    co_await member.receive(byte);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine_, std::move(world[0]), joined), others());
  };
  engine_.run(everybody());
  expect_error(joined, ErrorKind::MissingRanks, 1);
  EXPECT_THAT(text_of(joined), HasSubstr("gave up: its disk is full"));
  EXPECT_THAT(text_of(joined), HasSubstr("a process claiming rank 1 (pid 1) failed authentication"));
  EXPECT_THAT(text_of(joined), HasSubstr("16 more of those who did not prove who they are"));
}

TEST_F(JoinErrors, a_rank_0_that_answers_late_is_not_left) {
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  give_secret(world);
  world[1].timeout = std::chrono::minutes(1);
  Joined joined;
  auto slow_rank_0 = [&]() -> Task<> {
    Listener listener(engine_, Address::parse(world[0].address));
    Socket socket = co_await listener.accept();
    const Secret secret = secret_of(1);
    const auto refusal = co_await offer_secret(socket, secret, false, "the test");
    EXPECT_FALSE(refusal);
    co_await engine_.sleep_for(kAnswerTime - std::chrono::seconds(1));
    Identity rank_0;
    rank_0.job = job_id(world[0].name);
    rank_0.world = 2;
    constexpr Service kJoin{.join = true};
    const Admission admission = co_await authenticate_as_server(socket, secret, rank_0, kJoin, "the test");
    EXPECT_TRUE(admission.peer);
    EXPECT_TRUE(tell_taken(socket));
    JoinFrameBytes introduction{};
    const bool came = co_await socket.receive(introduction);
    EXPECT_TRUE(came);
  };
  auto both = [&]() -> Task<> {
    co_await when_all(slow_rank_0(), join_into(engine_, std::move(world[1]), joined));
  };
  engine_.run(both());
  expect_error(joined, ErrorKind::PeerDied, 0);
}

TEST_F(JoinErrors, a_missing_rank_0_is_named_with_its_address) {
  for (const std::string& address : {fresh_unix_address(), fresh_tcp_address()}) {
    std::vector<JoinOptions> world = world_of(2, address);
    world.erase(world.begin());
    give_secret(world);
    set_timeout(world, kShort);
    const std::vector<Joined> joined = join_on(engine_, std::move(world));
    expect_error(joined[0], ErrorKind::MissingRanks, 0);
    EXPECT_THAT(text_of(joined[0]), AllOf(HasSubstr("rank 1 found nobody at " + address),
                                          HasSubstr("start it"), HasSubstr("refused")));
  }
}

TEST_F(JoinErrors, a_rank_that_leaves_frees_its_place_for_its_successor) {
  std::vector<JoinOptions> world = world_of(3, fresh_unix_address());
  give_secret(world);
  std::vector<Joined> joined(3);
  auto rank_1_dies_and_is_restarted = [&]() -> Task<> {
    {
      const Socket first = co_await come_as(world[1]);
      co_await engine_.sleep_for(std::chrono::milliseconds(20));
    }
    co_await join_into(engine_, std::move(world[1]), joined[1]);
    EXPECT_TRUE(joined[1].membership) << text_of(joined[1]);
  };
  auto rank_2_is_late = [&]() -> Task<> {
    co_await engine_.sleep_for(std::chrono::milliseconds(60));
    co_await join_into(engine_, std::move(world[2]), joined[2]);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine_, std::move(world[0]), joined[0]), rank_1_dies_and_is_restarted(),
                      rank_2_is_late());
  };
  engine_.run(everybody());
  for (const Joined& one : joined) EXPECT_TRUE(one.membership) << text_of(one);
}

TEST_F(JoinErrors, a_rank_that_dies_while_the_others_connect_is_named_to_all) {
  std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
  give_secret(world);
  std::vector<Joined> joined(4);
  auto rank_2_dies = [&]() -> Task<> {
    Socket socket = co_await come_as(world[2]);
    std::array<std::byte, 1> first_of_the_table{};
    co_await socket.receive(first_of_the_table);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine_, std::move(world[0]), joined[0]),
                      join_into(engine_, std::move(world[1]), joined[1]), rank_2_dies(),
                      join_into(engine_, std::move(world[3]), joined[3]));
  };
  engine_.run(everybody());
  for (const Rank rank : {0, 1, 3}) {
    expect_error(joined[rank], ErrorKind::PeerDied, 2);
    EXPECT_THAT(text_of(joined[rank]), HasSubstr("rank 2 (odd one, pid"));
  }
}

TEST_F(JoinErrors, a_rank_that_hangs_while_the_others_connect_is_named_at_the_deadline) {
  std::vector<JoinOptions> world = world_of(3, fresh_unix_address());
  give_secret(world);
  set_timeout(world, kShort);
  std::vector<Joined> joined(3);
  auto rank_2_hangs = [&]() -> Task<> {
    const Socket socket = co_await come_as(world[2]);
    co_await engine_.sleep_for(kShort * 2);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine_, std::move(world[0]), joined[0]),
                      join_into(engine_, std::move(world[1]), joined[1]), rank_2_hangs());
  };
  engine_.run(everybody());
  for (const Rank rank : {0, 1}) {
    expect_error(joined[rank], ErrorKind::PeerSilent, 2);
    EXPECT_THAT(text_of(joined[rank]),
                AllOf(HasSubstr("rank 2 did not answer"), HasSubstr("rank 1 waits for 2")));
  }
}

TEST_F(JoinErrors, a_rank_0_that_gives_up_says_so) {
  std::vector<JoinOptions> world = world_of(3, fresh_unix_address());
  std::vector<Joined> joined(2);
  auto rank_0 = [&]() -> Task<> {
    try {
      Task<Membership> joining = join(engine_, std::move(world[0]));
      Task<Membership> timed = with_deadline(kShort, std::move(joining));
      co_await timed;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::DeadlineExceeded) << error.what();
    }
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(rank_0(), join_into(engine_, std::move(world[1]), joined[1]));
  };
  engine_.run(everybody());
  expect_error(joined[1], ErrorKind::PeerAborted, 0);
}

TEST_F(JoinErrors, a_cancelled_member_frees_its_place) {
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  world[0].timeout = kShort;
  std::vector<Joined> joined(2);
  auto rank_1 = [&]() -> Task<> {
    std::vector<JoinOptions> three = world_of(3, world[0].address);
    Task<> joining = join_into(engine_, std::move(three[1]), joined[1]);
    Task<> timed = with_deadline(kShort / 2, std::move(joining));
    co_await timed;
  };
  world[0].size = 3;
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine_, std::move(world[0]), joined[0]), rank_1());
  };
  engine_.run(everybody());
  expect_error(joined[1], ErrorKind::DeadlineExceeded, std::nullopt);
  expect_error(joined[0], ErrorKind::MissingRanks, 1);
  EXPECT_THAT(text_of(joined[0]), HasSubstr("ranks 1-2 of 3 are missing"));
}

TEST_F(JoinErrors, options_that_cannot_be_are_refused_at_once) {
  std::vector<JoinOptions> world = world_of(2, "");
  world[0].rank = 2;
  world[1].name = "with blank";
  for (const Joined& one : join_on(engine_, std::move(world)))
    expect_error(one, ErrorKind::InvalidArgument, std::nullopt);
}

}  // namespace
}  // namespace cohort::join_errors_test
