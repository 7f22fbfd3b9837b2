// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/session/session.h>

#include <cohort/tests/bindings/session/sessions.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

namespace cohort::bindings::session_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_from;
using cohort::test::kind_of;
using ::testing::HasSubstr;

TEST(Session, blocking_calls_of_every_size_complete_over_shared_memory_and_tcp) {
  for (const char* transport : {"shm", "tcp"}) {
    const auto body = [](Session&, const Member& comm) {
      for (const std::size_t count : {1U, 1000U, 100'000U})
        for (int round = 0; round < 50; ++round) {
          std::vector<float> data(count, static_cast<float>(comm->rank() + 1));
          comm->call(sum(data));
          ASSERT_EQ(data.front(), 3.0F);
          ASSERT_EQ(data.back(), 3.0F);
        }
    };
    run_sessions(2, body, transport);
  }
}

TEST(Session, threads_of_one_session_call_at_once_on_groups_of_their_own) {
  constexpr int kThreads = 3;
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<Member> groups;
    for (int i = 0; i < kThreads; ++i) groups.push_back(comm->split(0));
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&group = *groups[static_cast<std::size_t>(i)], i] {
        for (int round = 0; round < 200; ++round) {
          std::vector<float> data(i == 0 ? 2 : 20'000, static_cast<float>(round));
          group.call(sum(data));
          ASSERT_EQ(data.back(), static_cast<float>(2 * round));
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const Member& group : groups) group->close();
  });
}

TEST(Session, a_thread_that_waits_for_another_one_s_peer_holds_up_nobody) {
  run_sessions(2, [](Session&, const Member& comm) {
    const Member other = comm->split(0);
    std::thread second;
    if (comm->rank() == 0) {
      // Rank 1 calls the barrier of `comm` only after that of `other`, for which a second thread is here.
      std::atomic<bool> waits{false};
      second = std::thread([&] {
        ASSERT_TRUE(comes_true([&] { return waits.load(); }));
        other->call(CollectiveCall{operator_of<Barrier>});
      });
      waits = true;
      comm->call(CollectiveCall{operator_of<Barrier>});
      second.join();
    } else {
      other->call(CollectiveCall{operator_of<Barrier>});
      comm->call(CollectiveCall{operator_of<Barrier>});
    }
    other->close();
  });
}

TEST(Session, a_started_call_that_is_given_time_is_over_when_its_peer_has_come) {
  constexpr int kRounds = 50;
  std::atomic<int> started{0};
  int over = 0;
  run_sessions(2, [&](Session&, const Member& comm) {
    for (int round = 1; round <= kRounds; ++round) {
      std::array<float, 2> data{1, 1};
      if (comm->rank() == 1) {
        ASSERT_TRUE(comes_true([&] { return started >= round; }));
        comm->call(sum(data));
        continue;
      }
      const auto request = comm->prepare(sum(data));
      started = round;
      comm->start(request, 60s);
      if (request->is_over()) ++over;
      request->wait();
      ASSERT_EQ(data[0], 2.0F);
    }
  });
  // Not where the session's own thread is at it just then.
  EXPECT_GE(over, kRounds / 2);
}

TEST(Session, a_started_call_whose_peer_does_not_come_is_left_to_itself) {
  std::atomic<bool> is_left{false};
  run_sessions(2, [&](Session&, const Member& comm) {
    std::array<float, 2> data{1, 1};
    EXPECT_TRUE(comes_true([&] { return comm->rank() == 0 || is_left; }));
    const auto request = comm->prepare(sum(data));
    comm->start(request, 1ms);
    is_left = true;
    ASSERT_TRUE(comes_true([&] { return request->is_over(); })) << "without anybody's help";
    EXPECT_EQ(data[0], 2.0F);
  });
}

TEST(Session, started_calls_keep_their_order_and_tell_by_a_descriptor) {
  constexpr std::size_t kCalls = 8;
  for (const char* transport : {"shm", "tcp"}) {
    const auto body = [](Session&, const Member& comm) {
      std::vector<std::vector<float>> data(kCalls, std::vector<float>(5000, 1.0F));
      Completions completions;
      std::vector<std::shared_ptr<Request>> requests;
      for (auto& one : data) {
        requests.push_back(comm->prepare(sum(one)));
        completions.expect(*requests.back());
        comm->start(requests.back());
      }
      std::vector<float> last(1, 1.0F);
      comm->call(sum(last));
      std::size_t over = 0;
      while (over < kCalls) {
        ::pollfd entry{.fd = completions.descriptor(), .events = POLLIN, .revents = 0};
        ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
        for (const auto& request : completions.take()) {
          EXPECT_EQ(request, requests[over++]);
          request->take();
        }
      }
      for (const auto& one : data) EXPECT_EQ(one.back(), 2.0F);
    };
    run_sessions(2, body, transport);
  }
}

TEST(Session, started_calls_are_over_without_anybody_who_waits) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<float> data(1, 1.0F);
    std::atomic<int> told{0};
    const auto request = comm->prepare(sum(data));
    request->when_over([&](Request&) { told = 1; });
    comm->start(request);
    ASSERT_TRUE(comes_true([&] { return told == 1; }));
    request->take();
    EXPECT_EQ(data.front(), 2.0F);
  });
}

TEST(Session, a_request_can_be_asked_again_and_again_or_until_a_moment) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<float> data(1, 1.0F);
    const auto request = comm->prepare(sum(data));
    if (comm->rank() == 0) {
      comm->start(request);
      EXPECT_FALSE(request->wait_until(std::chrono::steady_clock::now() + 20ms));
      char byte = 0;
      comm->call(
          MessageCall{MessageCall::Direction::send, 1, 0, std::as_writable_bytes(std::span(&byte, 1))});
      ASSERT_TRUE(comes_true([&] { return request->test(); }));
      request->take();
    } else {
      char byte = 0;
      comm->call(
          MessageCall{MessageCall::Direction::recv, 0, 0, std::as_writable_bytes(std::span(&byte, 1))});
      comm->start(request);
      request->wait();
    }
    EXPECT_EQ(data.front(), 2.0F);
  });
}

TEST(Session, completions_may_end_before_what_they_expect_and_several_may_expect_it) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<float> data(1, 1.0F);
    const auto request = comm->prepare(sum(data));
    std::optional<Completions> ended(std::in_place);
    Completions first;
    Completions second;
    for (Completions* one : {&*ended, &first, &second}) one->expect(*request);
    ended.reset();
    comm->start(request);
    for (Completions* one : {&first, &second}) {
      ::pollfd entry{.fd = one->descriptor(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
      EXPECT_THAT(one->take(), ::testing::ElementsAre(request));
    }
    request->wait();
  });
}

/// Two threads wait for calls that end at once, so that one of them goes without having led.
TEST(Session, what_was_started_goes_on_when_the_last_thread_that_waits_has_gone) {
  run_sessions(2, [](Session&, const Member& comm) {
    const std::array<Member, 2> groups = {comm->split(0), comm->split(0)};
    const AnyCall barrier = CollectiveCall{operator_of<Barrier>};
    for (int round = 0; round < 300; ++round) {
      std::vector<float> data(1, 1.0F);
      const auto request = comm->prepare(sum(data));
      if (comm->rank() == 0) {
        comm->start(request);
        std::vector<std::thread> threads;
        for (const Member& group : groups) threads.emplace_back([&] { group->call(barrier); });
        for (std::thread& thread : threads) thread.join();
        ASSERT_TRUE(comes_true([&] { return request->is_over(); })) << "nobody drives, in round " << round;
      } else {
        std::vector<std::shared_ptr<Request>> barriers;
        for (const Member& group : groups) barriers.push_back(group->prepare(barrier));
        for (const auto& one : barriers) comm->start(one);
        for (const auto& one : barriers) one->wait();
        comm->start(request);
        request->wait();
      }
    }
    for (const Member& group : groups) group->close();
  });
}

/// What a signal's handler does that calls the library.
class Aborts final : public Interrupt {
 public:
  explicit Aborts(SharedCommunicator& comm) : comm_(comm) {}
  bool is_wanted() noexcept override {
    if (!std::exchange(has_aborted_, true)) comm_.abort("the alarm rang");
    return false;
  }

 private:
  SharedCommunicator& comm_;
  bool has_aborted_ = false;
};

TEST(Session, a_question_may_itself_call_the_communicator_that_is_waited_for) {
  run_sessions(2, [](Session&, const Member& comm) {
    if (comm->rank() == 0) {
      Aborts aborts(*comm);
      const AnyCall barrier = CollectiveCall{operator_of<Barrier>};
      EXPECT_TRUE(error_from([&] { comm->call(barrier, {}, &aborts); }));
    } else {
      ASSERT_TRUE(comes_to_fail(*comm));
    }
  });
}

class After final : public Interrupt {
 public:
  explicit After(int questions) : left_(questions) {}
  bool is_wanted() noexcept override { return --left_ < 0; }

 private:
  int left_;
};

TEST(Session, an_interrupt_ends_the_wait_here_and_is_told_to_the_others) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<float> data(1, 1.0F);
    if (comm->rank() == 0) {
      After at_second_question(1);
      const auto error = error_from([&] { comm->call(sum(data), {}, &at_second_question); });
      EXPECT_EQ(kind_of(error), "Cancelled");
    } else {
      ASSERT_TRUE(comes_to_fail(*comm));
      const auto error = error_from([&] { comm->call(sum(data)); });
      EXPECT_EQ(kind_of(error), "PeerAborted");
    }
  });
}

TEST(Session, a_started_call_can_be_cancelled) {
  run_sessions(2, [](Session&, const Member& comm) {
    if (comm->rank() != 0) {
      EXPECT_TRUE(comes_to_fail(*comm));
      return;
    }
    std::vector<float> data(1, 1.0F);
    const auto request = comm->prepare(sum(data));
    comm->start(request);
    request->cancel();
    EXPECT_EQ(kind_of(error_from([&] { request->wait(); })), "Cancelled");
  });
}

TEST(Session, a_call_has_a_deadline_and_names_who_has_not_come) {
  run_sessions(2, [](Session&, const Member& comm) {
    if (comm->rank() == 0) {
      std::vector<float> data(1, 1.0F);
      const auto error = error_from([&] { comm->call(sum(data), {.timeout = 100ms}); });
      ASSERT_EQ(kind_of(error), "DeadlineExceeded");
      EXPECT_EQ(error->culprit(), 1U);
    } else {
      ASSERT_TRUE(comes_to_fail(*comm));
    }
  });
}

TEST(Session, wrong_arguments_are_refused_and_the_communicator_goes_on) {
  run_sessions(2, [](Session&, const Member& comm) {
    std::vector<float> in(3);
    std::vector<float> out(1);
    CallArguments arguments{.type = DataType::float32};
    arguments.in = std::as_bytes(std::span(in));
    arguments.out = std::as_writable_bytes(std::span(out));
    const auto error = error_from([&] { comm->call(CollectiveCall{operator_of<ReduceScatter>, arguments}); });
    ASSERT_EQ(kind_of(error), "InvalidArgument");
    EXPECT_THAT(error->what(), HasSubstr("cannot be split evenly over 2 ranks"));
    EXPECT_EQ(kind_of(error_from([&] { comm->call(sum(in), {.algorithm = "magic"}); })), "InvalidArgument");
    const std::string long_name(200, 'x');
    EXPECT_EQ(kind_of(error_from([&] { comm->call(sum(in), {.algorithm = long_name}); })), "InvalidArgument");
    comm->call(sum(in));
  });
}

TEST(Session, several_tensors_and_messages_from_anybody) {
  run_sessions(3, [](Session&, const Member& comm) {
    std::vector<float> a(3, 1.0F);
    std::vector<float> b(40'000, 2.0F);
    TensorsCall call{.op = operator_of<AllReduce>, .type = DataType::float32};
    for (auto* tensor : {&a, &b}) call.out.push_back(std::as_writable_bytes(std::span(*tensor)));
    comm->call(call);
    EXPECT_EQ(a.back(), 3.0F);
    EXPECT_EQ(b.back(), 6.0F);
    float word = static_cast<float>(comm->rank());
    const auto bytes = std::as_writable_bytes(std::span(&word, 1));
    if (comm->rank() != 0) {
      comm->call(MessageCall{MessageCall::Direction::send, 0, 5, bytes});
      return;
    }
    std::map<Rank, float> got;
    for (int i = 0; i < 2; ++i) {
      const Rank from = comm->call(MessageCall{MessageCall::Direction::recv_any, 0, 5, bytes});
      got[from] = word;
    }
    EXPECT_EQ(got, (std::map<Rank, float>{{1, 1.0F}, {2, 2.0F}}));
  });
}

TEST(Session, memory_that_peers_map_outlives_its_communicator) {
  std::shared_ptr<std::byte> memory;
  run_sessions(2, [&](Session&, const Member& comm) {
    const auto mine = comm->allocate(1 << 20);
    const std::span<float> data(reinterpret_cast<float*>(mine.get()), (1 << 20) / sizeof(float));
    std::ranges::fill(data, 1.0F);
    comm->call(sum(data));
    comm->close();
    EXPECT_EQ(data.back(), 2.0F);
  });
}

TEST(Session, a_task_does_several_calls_in_one_turn_and_not_after_the_end) {
  run_sessions(2, [](Session&, const Member& comm) {
    auto value = std::make_shared<float>(1.0F);
    auto twice = [comm, value]() -> Task<> {
      const std::span<float> one(value.get(), 1);
      co_await comm->communicator().all_reduce(one, ReduceOp::sum);
      co_await comm->communicator().all_reduce(one, ReduceOp::sum);
    };
    const auto request = comm->prepare_task(twice);
    comm->start(request);
    request->wait();
    EXPECT_EQ(*value, 4.0F);
    comm->close();
    const auto late = comm->prepare_task(twice);
    comm->start(late);
    EXPECT_THROW(late->wait(), Error);
  });
}

TEST(Session, a_group_is_made_by_its_members_only) {
  run_sessions(3, [](Session&, const Member& comm) {
    const Member none = comm->split(comm->rank() == 2 ? -1 : 0);
    EXPECT_EQ(none == nullptr, comm->rank() == 2);
    if (comm->rank() == 0) return;
    const Member pair = comm->group({2, 1}, "pair");
    EXPECT_EQ(pair->rank(), comm->rank() == 2 ? 0U : 1U);
    EXPECT_THAT(pair->world_ranks(), ::testing::ElementsAre(2, 1));
    std::vector<float> data(1, 1.0F);
    pair->call(sum(data));
    EXPECT_EQ(data.front(), 2.0F);
  });
}

TEST(Session, a_communicator_that_is_dropped_says_goodbye_by_itself) {
  std::atomic<bool> is_heard{false};
  run_sessions(2, [&](Session&, const Member& comm) {
    Member group = comm->split(0);
    if (comm->rank() == 0) {
      group.reset();
      EXPECT_TRUE(comes_true([&] { return is_heard.load(); }));
      return;
    }
    const auto error =
        error_from([&] { group->call(CollectiveCall{operator_of<Barrier>}, {.timeout = 30s}); });
    is_heard = true;
    EXPECT_EQ(kind_of(error), "PeerAborted");
  });
}

TEST(Session, a_child_of_fork_is_refused_and_ends_in_peace) {
  Session session;
  const Member comm = session.join(CommunicatorOptions());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto error = error_from([&] { comm->call(CollectiveCall{operator_of<Barrier>}); });
    Member other = comm;
    other.reset();
    std::_Exit(error && error->kind() == ErrorKind::InvalidArgument ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  comm->call(CollectiveCall{operator_of<Barrier>});
}

}  // namespace
}  // namespace cohort::bindings::session_test
