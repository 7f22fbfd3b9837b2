// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_plane.h>

#include <cohort/engine/failure.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>
#include <cohort/tests/support/world_engine.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace cohort::test::control_plane_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::UnorderedElementsAre;

class Revokes final : public ControlPlane::Handler {
 public:
  void on_control(Rank, const ControlMessage& message) noexcept override {
    if (message.type == ControlMessage::Type::revoke) revokes.emplace_back(message.cause().message());
  }
  void on_departure(Rank, bool, std::uint64_t) noexcept override {}

  std::vector<std::string> revokes;
};

/// One rank's exchange of hellos, and what came of it.
struct End {
  std::vector<Rank> heard;
  std::vector<std::string> revokes;
  std::optional<Error> error;
};

/// Rank 0 has nothing to say to rank 1.
Task<> exchange(Engine& engine, Membership& membership, End& end) {
  Revokes handler;
  ControlPlane control(engine, membership, handler);
  const ControlPlane::HelloFor hello_for = [&](Rank peer) -> ControlPlane::Hello {
    if (membership.rank == 0 && peer == 1) throw Error(ErrorKind::ResourceLimit, "no words for rank 1");
    return {};
  };
  const ControlPlane::Taken taken = [&](Rank peer, const ControlMessage&, std::vector<Descriptor>) {
    end.heard.push_back(peer);
  };
  TaskScope services;
  const std::optional<Error> error = co_await error_of(control.exchange_hellos(hello_for, taken, services));
  end.error = error;
  end.revokes = handler.revokes;
  if (error) control.shutdown();
  services.cancel();
  co_await services.join();
}

TEST(ControlPlane, a_rank_that_cannot_say_hello_to_one_still_does_to_the_others_and_hears_all) {
  Engine engine;
  std::vector<Joined> joined = join_on(engine, world_of(3, fresh_unix_address()));
  std::array<End, 3> ends;
  auto everybody = [&]() -> Task<> {
    co_await when_all(exchange(engine, *joined[0].membership, ends[0]),
                      exchange(engine, *joined[1].membership, ends[1]),
                      exchange(engine, *joined[2].membership, ends[2]));
  };
  engine.run(everybody());
  EXPECT_EQ(kind_of(ends[0].error), "ResourceLimit");
  EXPECT_THAT(ends[0].heard, UnorderedElementsAre(1, 2));
  EXPECT_EQ(kind_of(ends[1].error), "PeerDied");
  EXPECT_THAT(ends[1].error->what(), HasSubstr("see what it printed, then start all ranks again"));
  EXPECT_EQ(kind_of(ends[2].error), "no error");
  EXPECT_THAT(ends[2].heard, UnorderedElementsAre(0, 1));
}

TEST(ControlPlane, why_a_rank_hung_up_before_it_was_greeted_is_heard) {
  Engine engine;
  std::vector<Joined> joined = join_on(engine, world_of(2, fresh_unix_address()));
  Socket& gone = joined[0].membership->control[1];
  const ControlMessage words[] = {
      {}, ControlMessage::revoke(Error(ErrorKind::Mismatch, "transport differs between two others"), 0)};
  (void)gone.try_send(std::as_bytes(std::span(words)));
  gone.shutdown();
  End end;
  engine.run(exchange(engine, *joined[1].membership, end));
  EXPECT_EQ(kind_of(end.error), "PeerDied");
  EXPECT_THAT(end.heard, ElementsAre(0));
  EXPECT_THAT(end.revokes, ElementsAre("transport differs between two others"));
}

class Numbers final : public ControlPlane::GroupHandler, public ControlPlane::Handler {
 public:
  void on_group_message(Rank, const ControlMessage& message) noexcept override {
    heard.push_back(message.group);
  }
  void on_end(Rank, bool) noexcept override { has_ended = true; }
  void on_control(Rank, const ControlMessage&) noexcept override {}
  void on_departure(Rank, bool, std::uint64_t) noexcept override {}

  std::vector<GroupNumber> heard;
  bool has_ended = false;
};

/// Two ranks on one engine, so that neither reads while the other one speaks.
class FullConnection : public ::testing::Test {
 protected:
  FullConnection() {
    services_.set_on_failure(
        [this](const std::exception_ptr& failure) { told_.push_back(as_error(failure)); });
    for (Rank rank = 0; rank < 2; ++rank) {
      ControlPlane::Handler& handler = handlers_[rank];
      planes_[rank].emplace(engine_, *joined_[rank].membership, handler);
      planes_[rank]->set_group_handler(handlers_[rank]);
    }
  }

  /// Rank 0 says goodbye to so many groups at once, then time passes. How many of these it could say.
  std::size_t say(GroupNumber goodbyes) {
    std::size_t said = 0;
    auto whole = [&]() -> Task<> {
      const ControlPlane::HelloFor hello_for = [](Rank) -> ControlPlane::Hello { return {}; };
      const ControlPlane::Taken taken = [](Rank, const ControlMessage&, std::vector<Descriptor>) {};
      co_await when_all(planes_[0]->exchange_hellos(hello_for, taken, services_),
                        planes_[1]->exchange_hellos(hello_for, taken, services_));
      ControlMessage goodbye;
      goodbye.type = ControlMessage::Type::goodbye;
      for (goodbye.group = 1; goodbye.group <= goodbyes; ++goodbye.group)
        said += planes_[0]->send(1, goodbye) ? 1 : 0;
      EXPECT_EQ(handlers_[1].heard.size(), 0U);
      co_await planes_[0]->until_sent();
      co_await engine_.sleep_for(std::chrono::seconds(1));
      services_.cancel();
      try {
        co_await services_.join();
      } catch (const Error&) {  // told when it happened
      }
    };
    engine_.run(whole());
    return said;
  }

  std::array<Numbers, 2> handlers_;
  std::vector<Error> told_;

 private:
  WorldEngine engine_;
  std::vector<Joined> joined_ = join_on(engine_, world_of(2, fresh_unix_address()));
  TaskScope services_{nullptr, TaskScope::OnFailure::keep_others};
  std::array<std::optional<ControlPlane>, 2> planes_;
};

TEST_F(FullConnection, what_a_peer_has_no_room_for_is_told_in_order_when_it_reads) {
  constexpr GroupNumber kWords = 2000;
  EXPECT_EQ(say(kWords), kWords);
  EXPECT_EQ(handlers_[1].heard.size(), kWords);
  EXPECT_TRUE(std::ranges::is_sorted(handlers_[1].heard));
  EXPECT_FALSE(handlers_[0].has_ended || handlers_[1].has_ended);
  EXPECT_THAT(told_, ::testing::IsEmpty());
}

TEST_F(FullConnection, more_than_is_worth_keeping_is_a_limit_of_the_rank_that_says_it) {
  constexpr GroupNumber kWords = 2 * ControlQueue::kMost;
  EXPECT_LT(say(kWords), kWords);
  ASSERT_THAT(told_, ElementsAre(Property(&Error::kind, ErrorKind::ResourceLimit)));
  EXPECT_THAT(told_.front().what(), HasSubstr("words wait for rank 1 ("));
  EXPECT_TRUE(handlers_[1].has_ended) << "who is not told all hears the end";
}

/// What a rank is told of its only peer, in virtual time: requests to the kernel are answered by the test.
class OwnShortage : public ::testing::Test, private ControlPlane::Handler {
 protected:
  OwnShortage() {
    membership_.size = 2;
    membership_.peers.resize(2);
    membership_.peers[1].rank = 1;
    membership_.control.resize(2);
    membership_.control[1] = Socket(engine_, Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    services_.set_on_failure(
        [this](const std::exception_ptr& failure) { told_.push_back(as_error(failure)); });
    ControlPlane::Handler& handler = *this;
    plane_.emplace(engine_, membership_, handler);
  }

  /// Both say hello; then what is received comes to `results`, one after the other.
  void meet_and_receive(const std::vector<int>& results) {
    auto meets = [&]() -> Task<> {
      const ControlPlane::HelloFor hello_for = [](Rank) -> ControlPlane::Hello { return {}; };
      const ControlPlane::Taken taken = [](Rank, const ControlMessage&, std::vector<Descriptor>) {};
      co_await plane_->exchange_hellos(hello_for, taken, services_);
    };
    auto answers = [&]() -> Task<> {
      co_await answer_hello();
      for (const int result : results) {
        if (engine_.virtual_driver().in_flight() == 0) co_await engine_.sleep_for(std::chrono::seconds(1));
        if (engine_.virtual_driver().in_flight() == 0) break;
        engine_.virtual_driver().finish_next(result);
        co_await engine_.sleep_for(Duration::zero());
      }
    };
    auto whole = [&]() -> Task<> {
      co_await when_all(meets(), answers());
      co_await engine_.sleep_for(std::chrono::seconds(1));  // for the last one to be seen
      services_.cancel();
      try {
        co_await services_.join();
      } catch (const Error&) {  // told when it happened
      }
    };
    engine_.run(whole());
  }

  std::vector<Error> told_;
  std::optional<Rank> departed_;

 private:
  void on_control(Rank, const ControlMessage&) noexcept override {}
  void on_departure(Rank peer, bool, std::uint64_t) noexcept override { departed_ = peer; }

  Task<> answer_hello() {
    VirtualDriver& driver = engine_.virtual_driver();
    const auto* const into = static_cast<const ::msghdr*>(driver.next().request().address);
    const ControlMessage hello;
    std::memcpy(into->msg_iov->iov_base, &hello, sizeof hello);
    driver.finish_next(sizeof hello);
    driver.finish_next(sizeof hello);  // the own one is sent
    co_await engine_.sleep_for(Duration::zero());
  }

  VirtualEngine engine_;
  Membership membership_;
  TaskScope services_{nullptr, TaskScope::OnFailure::keep_others};
  std::optional<ControlPlane> plane_;
};

TEST_F(OwnShortage, is_told_and_the_end_of_the_peer_is_heard_all_the_same) {
  meet_and_receive({-ENOBUFS, -ENOMEM, 0});
  EXPECT_THAT(told_, ElementsAre(Property(&Error::kind, ErrorKind::ResourceLimit),
                                 Property(&Error::kind, ErrorKind::ResourceLimit)));
  EXPECT_EQ(departed_, Rank{1});
}

}  // namespace
}  // namespace cohort::test::control_plane_test
