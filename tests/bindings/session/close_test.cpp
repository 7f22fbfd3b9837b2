// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/bindings/session/sessions.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace cohort::bindings::close_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_from;
using cohort::test::kind_of;
using ::testing::HasSubstr;

const AnyCall kBarrier = CollectiveCall{operator_of<Barrier>};

TEST(SessionClose, ends_calls_that_are_under_way_with_an_error_and_tells_the_others_why) {
  for (const char* transport : {"shm", "tcp"}) {
    const auto body = [](Session&, const Member& comm) {
      std::vector<float> data(1000, 1.0F);
      std::vector<std::byte> large(std::size_t{8} << 20);
      const auto word = std::span(large).first(1);
      if (comm->rank() != 0) {
        comm->call(MessageCall{MessageCall::Direction::send, 0, 3, word});
        ASSERT_TRUE(comes_to_fail(*comm));
        const auto error = error_from([&] { comm->call(sum(data)); });
        ASSERT_EQ(kind_of(error), "PeerAborted");
        EXPECT_THAT(error->what(), HasSubstr("was closed by this rank while the call was under way"));
        return;
      }
      char byte = 0;
      const auto bytes = std::as_writable_bytes(std::span(&byte, 1));
      comm->call(MessageCall{MessageCall::Direction::recv, 1, 3, word});  // opens the large one's way
      std::vector<std::shared_ptr<Request>> requests = {
          comm->prepare(MessageCall{MessageCall::Direction::send, 1, 2, large}),  // rank 1 hears of it
          comm->prepare(sum(data)), comm->prepare(kBarrier),  // the second one waits for its turn
          comm->prepare(MessageCall{MessageCall::Direction::recv, 1, 0, bytes}),
          comm->prepare(MessageCall{MessageCall::Direction::recv_any, 0, 1, bytes})};
      for (const auto& request : requests) comm->start(request);
      comm->close();
      for (const auto& request : requests) {
        ASSERT_TRUE(request->is_over());
        const auto error = error_from([&] { request->wait(); });
        ASSERT_EQ(kind_of(error), "Cancelled");
        EXPECT_THAT(error->what(), HasSubstr("wait for calls before close()"));
      }
    };
    run_sessions(2, body, transport);
  }
}

/// Wants nothing back: knows that the thread waits, for what it asked for has begun when it is asked.
class Waits final : public Interrupt {
 public:
  bool is_wanted() noexcept override {
    has_begun_ = true;
    has_begun_.notify_all();
    return false;
  }
  void wait_until_begun() const { has_begun_.wait(false); }

 private:
  std::atomic<bool> has_begun_{false};
};

TEST(SessionClose, ends_what_other_threads_wait_for) {
  run_sessions(2, [](Session&, const Member& comm) {
    if (comm->rank() != 0) {
      EXPECT_TRUE(comes_to_fail(*comm));
      return;
    }
    std::atomic<int> ended{0};
    std::array<Waits, 3> waits;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        const auto error = error_from([&] { comm->call(kBarrier, {}, &waits[i]); });
        EXPECT_EQ(kind_of(error), "Cancelled");
        ++ended;
      });
    threads.emplace_back([&] {
      const auto error = error_from([&] { (void)comm->group({0, 1}, "never", &waits[2]); });
      EXPECT_TRUE(error) << "rank 1 never makes it";
      ++ended;
    });
    for (const Waits& one : waits) one.wait_until_begun();
    comm->close();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ended, 3);
  });
}

TEST(SessionClose, may_be_called_by_several_threads_and_refuses_what_comes_later) {
  run_sessions(2, [](Session&, const Member& comm) {
    comm->call(kBarrier);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { comm->close(); });
    for (std::thread& thread : threads) thread.join();
    const auto request = comm->prepare(kBarrier);
    comm->start(request);
    EXPECT_EQ(kind_of(error_from([&] { request->wait(); })), "InvalidArgument");
    const auto error = error_from([&] { comm->call(kBarrier); });
    ASSERT_EQ(kind_of(error), "InvalidArgument");
    EXPECT_THAT(error->what(), HasSubstr("is closed"));
    EXPECT_EQ(kind_of(error_from([&] { (void)comm->split(0); })), "InvalidArgument");
  });
}

/// Whether each other thread of this process sleeps in ppoll(), and would for another minute if nothing came.
bool all_others_sleep_long() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    if (entry.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream file(entry.path() / "syscall");  // its number and arguments; "running" outside of any
    long number = -1;
    std::uintptr_t descriptors = 0;
    std::uintptr_t count = 0;
    std::uintptr_t timeout = 0;
    file >> number >> std::hex >> descriptors >> count >> timeout;
    if (!file || number != SYS_ppoll) return false;
    ::timespec time{};  // read by the kernel: the thread may go on meanwhile
    ::iovec to{.iov_base = &time, .iov_len = sizeof time};
    ::iovec from{.iov_base = std::bit_cast<void*>(timeout), .iov_len = sizeof time};
    if (timeout == 0) continue;
    const ssize_t got = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
    if (got != ssize_t{sizeof time} || time.tv_sec < 60) return false;
  }
  return true;
}

TEST(SessionClose, no_thread_wakes_after_the_last_communicator_is_released) {
  if (sanitizers::kThread) GTEST_SKIP() << "the sanitizer has a thread that wakes";
  Session session;
  Member comm = session.join(CommunicatorOptions());
  comm->call(kBarrier);
  ::testing::internal::CaptureStderr();
  comm.reset();
  EXPECT_TRUE(comes_true(all_others_sleep_long)) << "it closes by itself, and then nothing is left to do";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

/// The root of a call may be through before the others are; nothing of it may wait for the root's next call.
TEST(SessionClose, a_call_that_is_over_has_left_nothing_to_be_sent_by_the_next_one) {
  for (const char* transport : {"shm", "tcp"}) {
    std::atomic<int> through{0};
    const auto body = [&](Session&, const Member& comm) {
      constexpr int kRounds = 40;
      std::vector<float> data(64, 1.0F);
      const auto bytes = std::as_writable_bytes(std::span(data));
      for (int round = 0; round < kRounds; ++round) {
        const Rank root = static_cast<Rank>(round % 2);
        if (round % 4 < 2) {
          CollectiveCall call{operator_of<Broadcast>};
          call.arguments.root = root;
          call.arguments.out = bytes;
          comm->call(call, {.timeout = 30s});
        } else {
          const auto direction =
              comm->rank() == root ? MessageCall::Direction::send : MessageCall::Direction::recv;
          comm->call(MessageCall{direction, 1 - comm->rank(), 0, bytes}, {.timeout = 30s});
        }
        ++through;
        ASSERT_TRUE(comes_true([&] { return through >= 2 * (round + 1); })) << "round " << round;
      }
    };
    run_sessions(2, body, transport);
  }
}

}  // namespace
}  // namespace cohort::bindings::close_test
